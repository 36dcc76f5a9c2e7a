//! No replica answers: what needs validation waits, and nothing else does.

use serde_json::json;

use crate::admission::client::{ApiResult, FireboltKind, Refusal, eventually};
use crate::admission::manifests::{
    CLASS, ENGINE, INSTANCE, class, container, engine, instance, new_replicas, new_template, wake,
};
use crate::admission::testenv::{AdmissionEnv, NOBODY};

#[track_caller]
fn assert_unanswered<T: std::fmt::Debug>(answer: Result<T, Refusal>) {
    let refusal = answer.expect_err("no webhook responds");
    assert!(refusal.is_unanswered(), "{refusal:?}");
}

impl AdmissionEnv {
    /// Waits until the API server calls a webhook that does not respond.
    async fn wait_for_silence(&self) {
        let unanswered = async || self.dry_run(&class("any")).await.err().filter(Refusal::is_unanswered);
        eventually("no webhook responds", unanswered).await;
    }

    async fn edit_label(&self, kind: FireboltKind, name: &str) -> ApiResult {
        self.edit(kind, name, &json!({ "metadata": { "labels": { "team": "sales" } } }))
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_requests_that_need_validation_are_rejected() {
    let mut env = AdmissionEnv::start().await;
    env.has(&[class(CLASS), instance(INSTANCE), engine(ENGINE)]).await;
    env.replicas.clear();
    env.wait_for_silence().await;
    assert_unanswered(env.create(&engine("another")).await);
    assert_unanswered(env.create(&class("another")).await);
    assert_unanswered(env.create(&instance("another")).await);
    let template = new_template(&container("engine", "image", &json!("registry.example/engine:2")));
    assert_unanswered(env.edit(FireboltKind::Engine, ENGINE, &template).await);
    assert_unanswered(env.edit(FireboltKind::Engine, ENGINE, &new_replicas(2)).await);
    assert_unanswered(env.edit(FireboltKind::Class, CLASS, &template).await);
    let replicas = json!({ "spec": { "gateway": { "replicas": 3 } } });
    assert_unanswered(env.edit(FireboltKind::Instance, INSTANCE, &replicas).await);
    assert_unanswered(env.delete(FireboltKind::Class, CLASS).await);
    assert_unanswered(env.delete(FireboltKind::Instance, INSTANCE).await);
    assert!(env.get(FireboltKind::Class, CLASS).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_engines_can_be_woken_scaled_and_deleted() {
    let mut env = AdmissionEnv::start().await;
    let mut held = [class(CLASS), instance(INSTANCE), engine(ENGINE)];
    for object in &mut held {
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    env.has(&held).await;
    env.replicas.clear();
    env.wait_for_silence().await;
    env.edit(FireboltKind::Engine, ENGINE, &wake()).await.unwrap();
    env.kubectl(&["scale", "fireboltengine", ENGINE, "--replicas=2"], "")
        .unwrap();
    env.scale(ENGINE, 0).await.unwrap();
    for (kind, name) in [
        (FireboltKind::Engine, ENGINE),
        (FireboltKind::Class, CLASS),
        (FireboltKind::Instance, INSTANCE),
    ] {
        env.edit_label(kind, name).await.unwrap();
    }
    env.delete(FireboltKind::Engine, ENGINE).await.unwrap();
    // On a terminating object, the webhook is not called for a change of the spec either.
    env.edit(FireboltKind::Engine, ENGINE, &new_replicas(7)).await.unwrap();
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit(FireboltKind::Engine, ENGINE, &release).await.unwrap();
    env.wait_until_gone(FireboltKind::Engine, ENGINE).await;
}

/// The webhook is not called for the operator's own writes: an operator that cannot reach itself still works.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_the_operator_keeps_reconciling() {
    let mut env = AdmissionEnv::bare().await;
    // Of the two, only the webhook that fills in ids can be done without.
    env.register_mutating(NOBODY, &[&env.namespace]).await;
    env.has(&[engine(ENGINE)]).await;
    let stored = env.create(&instance(INSTANCE)).await.unwrap();
    assert_eq!(stored["spec"].get("id"), None, "no webhook set it");
    env.register_validating(NOBODY, &[&env.namespace]).await;
    env.wait_for_silence().await;
    env.start_replica(&["--webhook-bind-address=0"]);
    let minted = async || {
        env.get(FireboltKind::Instance, INSTANCE).await?["spec"]["id"]
            .as_str()
            .map(str::len)
    };
    assert_eq!(eventually("the controller fills in the id", minted).await, 26);
    let reconciled = async || {
        let engine = env.get(FireboltKind::Engine, ENGINE).await?;
        engine["metadata"]["finalizers"].is_array().then_some(())
    };
    eventually("the engine has a finalizer", reconciled).await;
    env.delete(FireboltKind::Engine, ENGINE).await.unwrap();
    env.wait_until_gone(FireboltKind::Engine, ENGINE).await;
}
