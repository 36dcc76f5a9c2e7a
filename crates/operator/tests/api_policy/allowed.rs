//! What goes through: a gateway that wakes its own engines, and everybody who is no gateway.

use firebolt_api::key::Annotation;
use serde_json::{Value, json};

use crate::stage::{BARE, FOREIGN, FULL, Stage};

/// A merge patch that asks for an engine.
pub fn wake(time: &str) -> Value {
    json!({ "metadata": { "annotations": { Annotation::WakeRequested.key(): time } } })
}

/// Checks that an engine is asked for at this time and is otherwise as it was.
fn assert_only_woken(before: &Value, after: &Value, time: &str) {
    let mut expected = before.clone();
    expected["metadata"]["annotations"][Annotation::WakeRequested.key()] = json!(time);
    expected["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    assert_eq!(*after, expected);
}

#[tokio::test]
async fn a_gateway_wakes_the_engines_of_its_instance() {
    let stage = Stage::begin().await;
    for engine in [FULL, BARE] {
        let before = stage.engine(engine);
        for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"] {
            stage.patch(&stage.gateway, engine, &wake(time)).unwrap();
            assert_only_woken(&before, &stage.engine(engine), time);
        }
        let place = format!(
            "/metadata/annotations/{}",
            Annotation::WakeRequested.key().replace('/', "~1")
        );
        let patch = json!([{ "op": "replace", "path": place, "value": "2026-01-01T00:02:00Z" }]).to_string();
        let by_json_patch = ["patch", "fireboltengine", engine, "--type=json", "--patch", &patch];
        stage.kubectl(&stage.gateway, &by_json_patch, "").unwrap();
        assert_only_woken(&before, &stage.engine(engine), "2026-01-01T00:02:00Z");
        // What is said again changes nothing, and is no offence.
        stage
            .patch(&stage.gateway, engine, &json!({ "spec": { "replicas": 1 } }))
            .unwrap();
        assert_only_woken(&before, &stage.engine(engine), "2026-01-01T00:02:00Z");
    }
}

#[tokio::test]
async fn a_gateway_may_use_server_side_apply() {
    let stage = Stage::begin().await;
    for engine in [FULL, BARE] {
        let before = stage.engine(engine);
        for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"] {
            let mut applied = wake(time);
            applied["apiVersion"] = before["apiVersion"].clone();
            applied["kind"] = before["kind"].clone();
            applied["metadata"]["name"] = json!(engine);
            let apply = ["apply", "--server-side", "--field-manager=gateway", "-f", "-"];
            stage.kubectl(&stage.gateway, &apply, &applied.to_string()).unwrap();
            assert_only_woken(&before, &stage.engine(engine), time);
        }
    }
}

/// The API server itself leaves the status alone where it is not asked for it by name.
#[tokio::test]
async fn the_status_is_not_changed_along_with_an_engine() {
    let stage = Stage::begin().await;
    let before = stage.engine(BARE);
    let mut patch = wake("2026-01-01T00:00:00Z");
    patch["status"] = json!({ "activeGeneration": 7, "currentGeneration": 7 });
    stage.patch(&stage.gateway, BARE, &patch).unwrap();
    assert_only_woken(&before, &stage.engine(BARE), "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn an_instance_called_like_the_account_of_another_has_an_account_of_its_own() {
    let stage = Stage::begin().await;
    let namesake = stage.account(&stage.namespace, "main-gateway-gateway").await;
    stage.wait_for_permission(&namesake, "patch");
    let patch = wake("2026-01-01T00:00:00Z");
    stage.patch(&namesake, FOREIGN, &patch).unwrap();
    for (gateway, engine) in [(&namesake, BARE), (&stage.gateway, FOREIGN)] {
        let complaint = stage.patch(gateway, engine, &patch).unwrap_err();
        assert!(
            complaint.contains("This engine belongs to the instance main"),
            "{complaint}"
        );
    }
}

#[tokio::test]
async fn the_operator_and_administrators_are_not_concerned() {
    let stage = Stage::begin().await;
    let admin = stage.cluster.kubeconfig_admin();
    let before = stage.engine(FULL);
    for (somebody, replicas) in [(&stage.operator, 2), (&admin, 3)] {
        let patch = json!({ "spec": { "replicas": replicas }, "metadata": { "finalizers": null } });
        stage.patch(somebody, FULL, &patch).unwrap();
        let generation = json!({ "activeGeneration": replicas, "currentGeneration": replicas });
        let mut status = json!({ "metadata": { "name": FULL }, "status": generation });
        for key in ["apiVersion", "kind"] {
            status[key] = before[key].clone();
        }
        // A patch by kubectl would want to read the status first, which the operator never does.
        let apply = "apply --server-side --force-conflicts --subresource=status --filename=-";
        let apply: Vec<&str> = apply.split(' ').collect();
        stage.kubectl(somebody, &apply, &status.to_string()).unwrap();
        let engine = stage.engine(FULL);
        assert_eq!(engine["spec"]["replicas"], replicas);
        assert_eq!(engine["status"]["activeGeneration"], replicas);
    }
}

#[tokio::test]
async fn names_that_only_look_like_those_of_a_gateway_are_not_concerned() {
    let stage = Stage::begin().await;
    let account = |name: &str| format!("--serviceaccount={}:{name}", stage.namespace);
    let whom = [
        (stage.account(&stage.namespace, "gateway").await, account("gateway")),
        (
            stage.account(&stage.namespace, "main-gateway-config").await,
            account("main-gateway-config"),
        ),
        (
            stage.cluster.user_kubeconfig("jane-gateway", None).unwrap(),
            "--user=jane-gateway".to_owned(),
        ),
    ];
    stage.grant_everything(
        &whom
            .each_ref()
            .map(|(kubeconfig, flag)| (kubeconfig.as_path(), flag.as_str())),
    );
    for ((somebody, _), replicas) in whom.iter().zip(2..) {
        stage
            .patch(somebody, BARE, &json!({ "spec": { "replicas": replicas } }))
            .unwrap();
        assert_eq!(stage.engine(BARE)["spec"]["replicas"], replicas);
    }
}

/// Else the refusals would prove nothing.
#[tokio::test]
async fn without_the_policy_a_gateway_changes_what_it_likes() {
    let stage = Stage::begin().await;
    let patch = json!({ "spec": { "replicas": 0 } });
    stage.patch(&stage.gateway, BARE, &patch).unwrap_err();
    let binding = ["delete", "validatingadmissionpolicybinding", &stage.namespace];
    stage.as_admin(&binding, "").unwrap();
    stage.wait_for_policy(false);
    stage.patch(&stage.gateway, BARE, &patch).unwrap();
    assert_eq!(stage.engine(BARE)["spec"]["replicas"], 0);
}
