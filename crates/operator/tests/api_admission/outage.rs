//! No replica answers: what has to be judged waits, and nothing else does.

use serde_json::json;

use crate::fixture::{CLASS, ENGINE, INSTANCE, class, container, engine, instance, new_replicas, new_template, wake};
use crate::objects::{Answer, Kind, Refusal, eventually};
use crate::stage::{NOBODY, Stage};

#[track_caller]
fn assert_unanswered<T: std::fmt::Debug>(answer: Result<T, Refusal>) {
    let refusal = answer.expect_err("nobody was asked");
    assert!(refusal.is_unanswered(), "{refusal:?}");
}

impl Stage {
    /// Waits until the API server asks somebody who does not answer.
    async fn wait_for_silence(&self) {
        let unanswered = async || self.rehearse(&class("any")).await.err().filter(Refusal::is_unanswered);
        eventually("nobody answers", unanswered).await;
    }

    async fn edit_label(&self, kind: Kind, name: &str) -> Answer {
        self.edit(kind, name, &json!({ "metadata": { "labels": { "team": "sales" } } }))
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_no_replica_answers_what_has_to_be_judged_waits() {
    let mut stage = Stage::begin().await;
    stage.has(&[class(CLASS), instance(INSTANCE), engine(ENGINE)]).await;
    stage.replicas.clear();
    stage.wait_for_silence().await;
    assert_unanswered(stage.create(&engine("another")).await);
    assert_unanswered(stage.create(&class("another")).await);
    assert_unanswered(stage.create(&instance("another")).await);
    let template = new_template(&container("engine", "image", &json!("registry.example/engine:2")));
    assert_unanswered(stage.edit(Kind::Engine, ENGINE, &template).await);
    assert_unanswered(stage.edit(Kind::Engine, ENGINE, &new_replicas(2)).await);
    assert_unanswered(stage.edit(Kind::Class, CLASS, &template).await);
    let replicas = json!({ "spec": { "gateway": { "replicas": 3 } } });
    assert_unanswered(stage.edit(Kind::Instance, INSTANCE, &replicas).await);
    assert_unanswered(stage.delete(Kind::Class, CLASS).await);
    assert_unanswered(stage.delete(Kind::Instance, INSTANCE).await);
    assert!(stage.get(Kind::Class, CLASS).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_no_replica_answers_engines_are_woken_scaled_and_deleted() {
    let mut stage = Stage::begin().await;
    let mut held = [class(CLASS), instance(INSTANCE), engine(ENGINE)];
    for object in &mut held {
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    stage.has(&held).await;
    stage.replicas.clear();
    stage.wait_for_silence().await;
    stage.edit(Kind::Engine, ENGINE, &wake()).await.unwrap();
    stage
        .kubectl(&["scale", "fireboltengine", ENGINE, "--replicas=2"], "")
        .unwrap();
    stage.scale(ENGINE, 0).await.unwrap();
    for (kind, name) in [(Kind::Engine, ENGINE), (Kind::Class, CLASS), (Kind::Instance, INSTANCE)] {
        stage.edit_label(kind, name).await.unwrap();
    }
    stage.delete(Kind::Engine, ENGINE).await.unwrap();
    // A change of the specification is not asked about either, on an object that is going.
    stage.edit(Kind::Engine, ENGINE, &new_replicas(7)).await.unwrap();
    let release = json!({ "metadata": { "finalizers": null } });
    stage.edit(Kind::Engine, ENGINE, &release).await.unwrap();
    stage.wait_until_gone(Kind::Engine, ENGINE).await;
}

/// The operator is not asked about what it writes itself: one that cannot reach itself still works.
#[tokio::test(flavor = "multi_thread")]
async fn while_no_replica_answers_the_operator_goes_on() {
    let mut stage = Stage::bare().await;
    // Of the two, only the webhook that fills in ids can be done without.
    stage.register_mutating(NOBODY, &[&stage.namespace]).await;
    stage.has(&[engine(ENGINE)]).await;
    let stored = stage.create(&instance(INSTANCE)).await.unwrap();
    assert_eq!(stored["spec"].get("id"), None, "nobody filled it in");
    stage.register_validating(NOBODY, &[&stage.namespace]).await;
    stage.wait_for_silence().await;
    stage.start(&["--webhook-bind-address=0"]);
    let minted = async || {
        stage.get(Kind::Instance, INSTANCE).await?["spec"]["id"]
            .as_str()
            .map(str::len)
    };
    assert_eq!(eventually("the controller fills in the id", minted).await, 26);
    let looked_after = async || {
        let engine = stage.get(Kind::Engine, ENGINE).await?;
        engine["metadata"]["finalizers"].is_array().then_some(())
    };
    eventually("the engine has a finalizer", looked_after).await;
    stage.delete(Kind::Engine, ENGINE).await.unwrap();
    stage.wait_until_gone(Kind::Engine, ENGINE).await;
}
