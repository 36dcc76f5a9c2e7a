//! Objects that became invalid after they were stored: they can still be scaled, woken and deleted.

use rstest::rstest;
use serde_json::{Value, json};

use crate::admission::client::FireboltKind;
use crate::admission::manifests::{
    CLASS, COMMAND, ENGINE, INSTANCE, class_with, commanded, container, cpu, engine_of, engine_with, instance_with,
    new_replicas, new_template, wake,
};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::validation::assert_refused;

/// An engine whose class is gone.
fn orphan() -> Value {
    engine_of(ENGINE, "gone")
}

/// An engine that asks for more than is allowed today.
fn greedy() -> Value {
    engine_with(ENGINE, &cpu("8"))
}

#[rstest]
#[case::its_class_is_gone(orphan(), container("engine", "image", &json!("registry.example/engine:2")), "spec.engineClassRef")]
#[case::bounds_were_lowered(greedy(), cpu("7"), "spec.template.spec.containers[engine].resources.limits.cpu")]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_became_invalid_can_still_be_managed(
    #[case] mut engine: Value,
    #[case] template: Value,
    #[case] path: &str,
) {
    let mut env = AdmissionEnv::bare().await;
    engine["metadata"]["finalizers"] = json!(["example.com/hold"]);
    env.has_instance().await;
    env.has(&[engine]).await;
    env.admit_with(&["--engine-max-cpu=4"]).await;
    // What it consists of is validated.
    assert_refused(
        env.edit(FireboltKind::Engine, ENGINE, &new_template(&template)).await,
        &[path],
    );
    for replicas in [3, 0] {
        let changed = env
            .edit(FireboltKind::Engine, ENGINE, &new_replicas(replicas))
            .await
            .unwrap();
        assert_eq!(changed["spec"]["replicas"], replicas);
    }
    env.kubectl(&["scale", "fireboltengine", ENGINE, "--replicas=2"], "")
        .unwrap();
    env.edit(FireboltKind::Engine, ENGINE, &wake()).await.unwrap();
    env.delete(FireboltKind::Engine, ENGINE).await.unwrap();
    // On its way out, nothing is validated any more.
    let last_words = json!({ "metadata": { "labels": { "last": "words" } }, "spec": { "template": template } });
    env.edit(FireboltKind::Engine, ENGINE, &last_words).await.unwrap();
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit(FireboltKind::Engine, ENGINE, &release).await.unwrap();
    env.wait_until_gone(FireboltKind::Engine, ENGINE).await;
}

/// A class that rules of today object to.
fn bad_class() -> Value {
    class_with(CLASS, &commanded())
}

/// An instance that rules of today object to.
fn bad_instance() -> Value {
    instance_with(INSTANCE, "gateway", &container("envoy", "command", &json!(["sh"])))
}

#[rstest]
#[case::class(FireboltKind::Class, bad_class(), json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } }), COMMAND)]
#[case::instance(
    FireboltKind::Instance,
    bad_instance(),
    json!({ "spec": { "gateway": { "replicas": 3 } } }),
    "spec.gateway.template.spec.containers[envoy].command"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_class_or_an_instance_that_became_invalid_can_still_be_managed(
    #[case] kind: FireboltKind,
    #[case] mut object: Value,
    #[case] edit: Value,
    #[case] path: &str,
) {
    let mut env = AdmissionEnv::bare().await;
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    env.has(&[object]).await;
    env.admit_with(&[]).await;
    let refusal = env.edit(kind, &name, &edit).await.unwrap_err();
    assert!(refusal.fields().contains(&path), "{refusal:?}");
    let labels = json!({ "metadata": { "labels": { "team": "sales" } } });
    env.edit(kind, &name, &labels).await.unwrap();
    env.delete(kind, &name).await.unwrap();
    env.edit(kind, &name, &edit).await.unwrap();
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit(kind, &name, &release).await.unwrap();
    env.wait_until_gone(kind, &name).await;
}
