//! The rules of FireboltEngine.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Edit, assert_message, assert_rejected, at, engine, kube, unique};

const IMMUTABLE: &str = "is immutable once set; restore the previous value";

#[rstest]
#[case::replicas_zero("spec.replicas", json!(0))]
#[case::replicas_highest("spec.replicas", json!(1000))]
#[case::class("spec.engineClassRef", json!("large"))]
#[case::ui("spec.uiSidecar", json!(true))]
#[case::no_drain("spec.drainCheckEnabled", json!(false))]
#[case::drain_interval("spec.drainCheckInterval", json!("1m30s"))]
#[case::drain_interval_floor("spec.drainCheckInterval", json!("1000ms"))]
#[case::drain_interval_with_sign("spec.drainCheckInterval", json!("+5m"))]
#[case::rollout("spec.rollout", json!("recreate"))]
#[case::endpoint("spec.metadataEndpointOverride", json!("pensieve.example:7000"))]
#[case::claim_with_defaults("spec.storage", json!({ "persistentVolumeClaim": {} }))]
#[case::claim_size_as_number("spec.storage", json!({ "persistentVolumeClaim": { "size": 1_073_741_824 } }))]
#[case::claim_without_class("spec.storage", json!({ "persistentVolumeClaim": { "storageClassName": "" } }))]
#[case::empty_dir("spec.storage", json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1.5Gi" } }))]
#[case::empty_dir_default_medium("spec.storage", json!({ "emptyDir": { "medium": "" } }))]
#[case::host_path("spec.storage", json!({ "hostPath": { "path": "/data", "type": "DirectoryOrCreate" } }))]
#[case::config("spec.customEngineConfig", json!({ "logging": { "level": "debug" }, "list": [1, "a", null] }))]
#[case::auto_stop("spec.autoStop", json!({ "enabled": true, "activeReplicas": 2, "idleReplicas": 2 }))]
#[case::window_to_midnight("spec.autoStop", window("22:00", "24:00", &[]))]
#[case::window_over_midnight("spec.autoStop", window("23:30", "00:15", &["Sat", "Sun"]))]
#[tokio::test]
async fn accepts(#[case] path: &str, #[case] value: Value) {
    let stored = kube()
        .await
        .try_create(&engine().with(path, value.clone()))
        .await
        .expect("accept");
    let kept = at(&stored, path).expect("keep the field");
    assert!(contains(kept, &value), "{kept} lacks {value}");
}

fn window(start: &str, end: &str, days: &[&str]) -> Value {
    json!({ "activeReplicas": 1, "schedule": [{ "start": start, "end": end, "days": days }] })
}

/// Whether `whole` contains everything in `part`; `whole` may also have defaults.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|stored| contains(stored, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

#[rstest]
#[case::replicas_negative("spec.replicas", json!(-1), "greater than or equal to 0")]
#[case::replicas_too_many("spec.replicas", json!(1001), "less than or equal to 1000")]
#[case::replicas_text("spec.replicas", json!("two"), "must be of type integer")]
#[case::class_empty("spec.engineClassRef", json!(""), "at least 1 char")]
#[case::class_too_long("spec.engineClassRef", json!("c".repeat(254)), "may not be more than 253")]
#[case::instance_empty("spec.instanceRef", json!(""), "at least 1 char")]
#[case::instance_too_long("spec.instanceRef", json!("i".repeat(254)), "may not be more than 253")]
#[case::rollout_unknown("spec.rollout", json!("gentle"), r#"supported values: "graceful", "recreate""#)]
#[case::rollout_empty("spec.rollout", json!(""), r#"supported values: "graceful", "recreate""#)]
#[case::ui_text("spec.uiSidecar", json!("yes"), "must be of type boolean")]
#[case::drain_check_text("spec.drainCheckEnabled", json!("yes"), "must be of type boolean")]
#[case::interval_without_unit("spec.drainCheckInterval", json!("30"), "should match")]
#[case::interval_number("spec.drainCheckInterval", json!(30), "must be of type string")]
#[case::interval_too_short("spec.drainCheckInterval", json!("999ms"), "must be at least 1s")]
#[case::interval_of_many_parts("spec.drainCheckInterval", json!("1s".repeat(33)), "may not be more than 64")]
#[case::claim_size("spec.storage.persistentVolumeClaim.size", json!("10GB"), "should match")]
#[case::claim_size_negative("spec.storage.persistentVolumeClaim.size", json!("-1Gi"), "should match")]
#[case::claim_size_too_long("spec.storage.persistentVolumeClaim.size", json!("1".repeat(65)), "may not be more than 64")]
#[case::medium("spec.storage.emptyDir.medium", json!("Tape"), r#"supported values: "", "Memory""#)]
#[case::size_limit("spec.storage.emptyDir.sizeLimit", json!("1e1.5"), "should match")]
#[case::config_text("spec.customEngineConfig", json!("logging: debug"), "must be of type object")]
#[case::endpoint_too_long("spec.metadataEndpointOverride", json!("e".repeat(2049)), "may not be more than 2048")]
#[tokio::test]
async fn rejects_invalid_values(#[case] field: &str, #[case] value: Value, #[case] message: &str) {
    assert_rejected(engine().with(field, value), field, message).await;
}

#[rstest]
#[case::access_mode(json!({ "persistentVolumeClaim": { "accessModes": ["Any"] } }), "persistentVolumeClaim.accessModes[0]", r#"supported values: "ReadWriteOnce""#)]
#[case::path_missing(json!({ "hostPath": {} }), "hostPath.path", "Required value")]
#[case::path_relative(json!({ "hostPath": { "path": "data" } }), "hostPath.path", "should match '^/.*'")]
#[case::path_type(json!({ "hostPath": { "path": "/", "type": "Anything" } }), "hostPath.type", r#"supported values: "", "DirectoryOrCreate""#)]
#[tokio::test]
async fn rejects_invalid_storage(#[case] storage: Value, #[case] field: &str, #[case] message: &str) {
    let manifest = engine().with("spec.storage", storage);
    assert_rejected(manifest, &format!("spec.storage.{field}"), message).await;
}

#[rstest]
#[case::instance("spec.instanceRef", "Required value")]
#[tokio::test]
async fn requires(#[case] path: &str, #[case] message: &str) {
    assert_rejected(engine().without(path), path, message).await;
}

#[tokio::test]
async fn requires_a_spec() {
    let mut manifest = engine();
    manifest.as_object_mut().unwrap().remove("spec");
    assert_rejected(manifest, "spec", "Required value").await;
}

#[rstest]
#[case::enabled_only(json!({ "enabled": true }), "spec.autoStop.activeReplicas", "Required value")]
#[case::active_zero(json!({ "activeReplicas": 0 }), "spec.autoStop.activeReplicas", "greater than or equal to 1")]
#[case::active_too_many(json!({ "activeReplicas": 1001 }), "spec.autoStop.activeReplicas", "less than or equal to 1000")]
#[case::idle_negative(json!({ "activeReplicas": 1, "idleReplicas": -1 }), "spec.autoStop.idleReplicas", "greater than or equal to 0")]
#[case::idle_too_many(json!({ "activeReplicas": 1, "idleReplicas": 1001 }), "spec.autoStop.idleReplicas", "less than or equal to 1000")]
#[case::idle_above_active(json!({ "activeReplicas": 1, "idleReplicas": 2 }), "spec.autoStop.activeReplicas", "raise activeReplicas or lower idleReplicas")]
#[case::timeout_malformed(json!({ "activeReplicas": 1, "idleTimeout": "half an hour" }), "spec.autoStop.idleTimeout", "should match")]
#[case::timeout_negative(json!({ "activeReplicas": 1, "idleTimeout": "-5m" }), "spec.autoStop.idleTimeout", "should match")]
#[case::timeout_too_short(json!({ "activeReplicas": 1, "idleTimeout": "0s" }), "spec.autoStop.idleTimeout", "must be at least 1s")]
#[case::timeout_out_of_range(json!({ "activeReplicas": 1, "idleTimeout": "99999999h" }), "spec.autoStop.idleTimeout", "at most 2562047h")]
#[case::poll_too_short(json!({ "activeReplicas": 1, "pollInterval": "1ms" }), "spec.autoStop.pollInterval", "must be at least 1s")]
#[case::start_missing(json!({ "activeReplicas": 1, "schedule": [{ "end": "10:00" }] }), "spec.autoStop.schedule[0].start", "Required value")]
#[case::end_missing(json!({ "activeReplicas": 1, "schedule": [{ "start": "10:00" }] }), "spec.autoStop.schedule[0].end", "Required value")]
#[case::start_malformed(window("9:00", "10:00", &[]), "spec.autoStop.schedule[0].start", "should match")]
#[case::start_at_24(window("24:00", "10:00", &[]), "spec.autoStop.schedule[0].start", "should match")]
#[case::end_after_24(window("09:00", "24:01", &[]), "spec.autoStop.schedule[0].end", "should match")]
#[case::day_unknown(window("09:00", "10:00", &["Monday"]), "spec.autoStop.schedule[0].days[0]", r#"supported values: "Mon""#)]
#[tokio::test]
async fn rejects_invalid_auto_stop(#[case] policy: Value, #[case] field: &str, #[case] message: &str) {
    assert_rejected(engine().with("spec.autoStop", policy), field, message).await;
}

#[rstest]
#[case::claim_and_dir(json!({ "persistentVolumeClaim": {}, "emptyDir": {} }))]
#[case::claim_and_path(json!({ "persistentVolumeClaim": {}, "hostPath": { "path": "/d" } }))]
#[case::dir_and_path(json!({ "emptyDir": {}, "hostPath": { "path": "/d" } }))]
#[tokio::test]
async fn rejects_two_storage_backends(#[case] storage: Value) {
    let manifest = engine().with("spec.storage", storage);
    assert_rejected(
        manifest,
        "spec.storage",
        "are mutually exclusive; set at most one of them",
    )
    .await;
}

#[rstest]
#[case::too_long("e".repeat(46))]
#[case::starts_with_digit("3prod".to_owned())]
#[case::dotted("prod.eu".to_owned())]
#[tokio::test]
async fn rejects_names_that_are_invalid_for_derived_objects(#[case] name: String) {
    let manifest = engine().with("metadata.name", json!(name));
    assert_rejected(
        manifest,
        "metadata.name",
        "must have at most 45 characters, start with a lower-case letter",
    )
    .await;
}

#[tokio::test]
async fn accepts_the_longest_name() {
    kube()
        .await
        .try_create(&engine().with("metadata.name", json!("e".repeat(45))))
        .await
        .expect("accept");
}

#[tokio::test]
async fn sets_only_the_defaults_that_a_class_cannot_provide() {
    let manifest = engine()
        .with("spec.storage", json!({ "persistentVolumeClaim": {} }))
        .with("spec.autoStop", json!({ "activeReplicas": 1 }));
    let stored = kube().await.try_create(&manifest).await.unwrap();
    assert_eq!(
        stored["spec"]["storage"]["persistentVolumeClaim"],
        json!({ "size": "1Gi", "accessModes": ["ReadWriteOnce"] })
    );
    assert_eq!(
        stored["spec"]["autoStop"],
        json!({ "enabled": false, "activeReplicas": 1, "idleReplicas": 0, "idleTimeout": "30m", "pollInterval": "1m" })
    );
}

#[tokio::test]
async fn an_engine_has_one_replica_unless_its_manifest_says_otherwise() {
    let stored = kube().await.create(&engine().without("spec.replicas")).await;
    assert_eq!(at(&stored, "spec.replicas"), Some(&json!(1)));
}

#[tokio::test]
async fn leaves_fields_of_the_class_unset() {
    let stored = kube().await.try_create(&engine()).await.unwrap();
    assert_eq!(
        stored["spec"],
        json!({ "instanceRef": "main", "replicas": 1, "storage": {} })
    );
}

#[tokio::test]
async fn null_is_the_same_as_absent() {
    let stored = kube()
        .await
        .try_create(&engine().with("spec.uiSidecar", json!(null)))
        .await
        .unwrap();
    assert_eq!(at(&stored, "spec.uiSidecar"), None);
}

#[tokio::test]
async fn prunes_unknown_fields() {
    let stored = kube()
        .await
        .try_create(&engine().with("spec.color", json!("blue")))
        .await
        .unwrap();
    assert_eq!(at(&stored, "spec.color"), None);
}

#[rstest]
#[case::instance_changed("instanceRef", json!("main"), Some(json!("other")))]
#[case::override_changed("metadataEndpointOverride", json!("a:7000"), Some(json!("b:7000")))]
#[case::override_emptied("metadataEndpointOverride", json!("a:7000"), Some(json!("")))]
#[case::override_removed("metadataEndpointOverride", json!("a:7000"), None)]
#[tokio::test]
async fn rejects_changes_of_immutable_fields(#[case] field: &str, #[case] before: Value, #[case] after: Option<Value>) {
    let kube = kube().await;
    let path = format!("spec.{field}");
    let stored = kube.create(&engine().with(&path, before)).await;
    let edited = match after {
        Some(value) => stored.with(&path, value),
        None => stored.without(&path),
    };
    let refusal = kube.replace(&edited).await.expect_err("refuse");
    assert_message(&refusal, &path, IMMUTABLE);
}

#[tokio::test]
async fn rejects_removal_of_the_instance() {
    let kube = kube().await;
    let stored = kube.create(&engine()).await;
    let refusal = kube
        .replace(&stored.without("spec.instanceRef"))
        .await
        .expect_err("refuse");
    assert_message(&refusal, "spec.instanceRef", "Required value");
}

#[rstest]
#[case::override_set_later("metadataEndpointOverride", json!("a:7000"))]
#[case::class_changed("engineClassRef", json!("other"))]
#[case::replicas_changed("replicas", json!(5))]
#[tokio::test]
async fn accepts_changes_of_mutable_fields(#[case] field: &str, #[case] after: Value) {
    let kube = kube().await;
    let path = format!("spec.{field}");
    let stored = kube.create(&engine().with("spec.engineClassRef", json!("first"))).await;
    let stored = kube.replace(&stored.with(&path, after.clone())).await.expect("accept");
    assert_eq!(at(&stored, &path), Some(&after));
}

#[tokio::test]
async fn two_managers_share_the_containers_and_the_environment_of_a_template() {
    let kube = kube().await;
    let name = unique("shared");
    let part = |container: Value| {
        engine()
            .with("metadata.name", json!(name))
            .with("spec.template", json!({ "spec": { "containers": [container] } }))
    };
    let env = |key: &str| json!([{ "name": key, "value": "1" }]);
    kube.apply("team-a", &part(json!({ "name": "engine", "env": env("A") })))
        .await
        .unwrap();
    kube.apply("team-b", &part(json!({ "name": "engine", "env": env("B") })))
        .await
        .unwrap();
    let sidecar = part(json!({ "name": "proxy", "image": "proxy:1" }));
    let stored = kube.apply("team-c", &sidecar).await.unwrap();
    let containers = &stored["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers,
        &json!([
            { "name": "engine", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "1" }] },
            { "name": "proxy", "image": "proxy:1" },
        ])
    );
    // A field that its only manager no longer applies is removed; the others stay.
    let stored = kube
        .apply("team-a", &engine().with("metadata.name", json!(name)))
        .await
        .unwrap();
    assert_eq!(
        stored["spec"]["template"]["spec"]["containers"][0],
        json!({ "name": "engine", "env": env("B") })
    );
}
