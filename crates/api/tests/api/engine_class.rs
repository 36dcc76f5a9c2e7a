//! The rules of FireboltEngineClass. The types that it shares with an engine are tested there; these tests show that
//! each shared rule applies to the class as well.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Edit, assert_rejected, engine_class, kube};

#[rstest]
#[case::rollout("spec.rollout", json!("gentle"), "spec.rollout", "supported values")]
#[case::interval("spec.drainCheckInterval", json!("10ms"), "spec.drainCheckInterval", "must be at least 1s")]
#[case::storage("spec.storage", json!({ "emptyDir": {}, "hostPath": { "path": "/d" } }), "spec.storage", "set at most one of them")]
#[case::auto_stop("spec.autoStop", json!({ "activeReplicas": 1, "idleReplicas": 2 }), "spec.autoStop.activeReplicas", "raise activeReplicas")]
#[case::config("spec.customEngineConfig", json!([]), "spec.customEngineConfig", "must be of type object")]
#[case::name("metadata.name", json!("c".repeat(64)), "metadata.name", "at most 63 characters")]
#[tokio::test]
async fn rejects_invalid_values(#[case] path: &str, #[case] value: Value, #[case] field: &str, #[case] message: &str) {
    assert_rejected(engine_class().with(path, value), field, message).await;
}

#[rstest]
#[case::bare("spec.template", json!({}))]
#[case::everything("spec", json!({
    "template": { "metadata": { "labels": { "team": "data" } }, "spec": { "nodeSelector": { "pool": "engines" } } },
    "uiSidecar": true, "drainCheckEnabled": false, "drainCheckInterval": "2s", "rollout": "graceful",
    "storage": { "persistentVolumeClaim": { "size": "10Gi", "accessModes": ["ReadWriteOncePod"] } },
    "customEngineConfig": { "logging": { "level": "debug" } },
    "autoStop": {
        "enabled": true, "activeReplicas": 3, "idleReplicas": 0, "idleTimeout": "15m", "pollInterval": "30s",
        "schedule": [{ "start": "08:00", "end": "18:00", "days": ["Mon", "Fri"] }],
    },
}))]
#[case::longest_name("metadata.name", json!("c".repeat(63)))]
#[case::dotted_name("metadata.name", json!("large.v2"))]
#[tokio::test]
async fn accepts(#[case] path: &str, #[case] value: Value) {
    let manifest = engine_class().with(path, value);
    let stored = kube().await.try_create(&manifest).await.expect("accept");
    let expected = manifest["spec"]
        .clone()
        .with("storage", stored["spec"]["storage"].clone());
    assert_eq!(stored["spec"], expected);
}

#[tokio::test]
async fn requires_a_template() {
    assert_rejected(
        engine_class().without("spec.template"),
        "spec.template",
        "Required value",
    )
    .await;
}

#[tokio::test]
async fn requires_a_spec() {
    let mut manifest = engine_class();
    manifest.as_object_mut().unwrap().remove("spec");
    assert_rejected(manifest, "spec", "Required value").await;
}

#[tokio::test]
async fn sets_no_defaults_that_engines_could_set() {
    let stored = kube().await.try_create(&engine_class()).await.unwrap();
    assert_eq!(stored["spec"], json!({ "template": {}, "storage": {} }));
}
