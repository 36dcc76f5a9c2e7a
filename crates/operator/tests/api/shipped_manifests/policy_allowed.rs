//! Requests that the policy allows: a gateway that wakes its own engines, and everyone who is not a gateway.

use firebolt_api::key::Annotation;
use serde_json::{Value, json};

use crate::shipped_manifests::testenv::{BARE, FOREIGN, FULL, PolicyEnv};

/// A merge patch that asks for an engine.
pub(super) fn wake(time: &str) -> Value {
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
    let env = PolicyEnv::start().await;
    for engine in [FULL, BARE] {
        let before = env.engine(engine);
        for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"] {
            env.patch(&env.gateway, engine, &wake(time)).unwrap();
            assert_only_woken(&before, &env.engine(engine), time);
        }
        let place = format!(
            "/metadata/annotations/{}",
            Annotation::WakeRequested.key().replace('/', "~1")
        );
        let patch = json!([{ "op": "replace", "path": place, "value": "2026-01-01T00:02:00Z" }]).to_string();
        let by_json_patch = ["patch", "fireboltengine", engine, "--type=json", "--patch", &patch];
        env.kubectl(&env.gateway, &by_json_patch, "").unwrap();
        assert_only_woken(&before, &env.engine(engine), "2026-01-01T00:02:00Z");
        // Setting the same value again changes nothing and is allowed.
        env.patch(&env.gateway, engine, &json!({ "spec": { "replicas": 1 } }))
            .unwrap();
        assert_only_woken(&before, &env.engine(engine), "2026-01-01T00:02:00Z");
    }
}

#[tokio::test]
async fn a_gateway_may_use_server_side_apply() {
    let env = PolicyEnv::start().await;
    for engine in [FULL, BARE] {
        let before = env.engine(engine);
        for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"] {
            let mut applied = wake(time);
            applied["apiVersion"] = before["apiVersion"].clone();
            applied["kind"] = before["kind"].clone();
            applied["metadata"]["name"] = json!(engine);
            let apply = ["apply", "--server-side", "--field-manager=gateway", "-f", "-"];
            env.kubectl(&env.gateway, &apply, &applied.to_string()).unwrap();
            assert_only_woken(&before, &env.engine(engine), time);
        }
    }
}

/// The API server itself leaves the status alone where it is not asked for it by name.
#[tokio::test]
async fn the_status_is_not_changed_along_with_an_engine() {
    let env = PolicyEnv::start().await;
    let before = env.engine(BARE);
    let mut patch = wake("2026-01-01T00:00:00Z");
    patch["status"] = json!({ "activeGeneration": 7, "currentGeneration": 7 });
    env.patch(&env.gateway, BARE, &patch).unwrap();
    assert_only_woken(&before, &env.engine(BARE), "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn an_instance_named_like_the_account_of_another_has_its_own_account() {
    let env = PolicyEnv::start().await;
    let namesake = env.account(&env.namespace, "main-gateway-gateway").await;
    env.wait_for_permission(&namesake, "patch");
    let patch = wake("2026-01-01T00:00:00Z");
    env.patch(&namesake, FOREIGN, &patch).unwrap();
    for (gateway, engine) in [(&namesake, BARE), (&env.gateway, FOREIGN)] {
        let complaint = env.patch(gateway, engine, &patch).unwrap_err();
        assert!(
            complaint.contains("This engine belongs to the instance main"),
            "{complaint}"
        );
    }
}

#[tokio::test]
async fn the_policy_does_not_apply_to_the_operator_and_administrators() {
    let env = PolicyEnv::start().await;
    let admin = env.cluster.kubeconfig_admin();
    let before = env.engine(FULL);
    for (kubeconfig, replicas) in [(&env.operator, 2), (&admin, 3)] {
        let patch = json!({ "spec": { "replicas": replicas }, "metadata": { "finalizers": null } });
        env.patch(kubeconfig, FULL, &patch).unwrap();
        let generation = json!({ "activeGeneration": replicas, "currentGeneration": replicas });
        let mut status = json!({ "metadata": { "name": FULL }, "status": generation });
        for key in ["apiVersion", "kind"] {
            status[key] = before[key].clone();
        }
        // A patch by kubectl would want to read the status first, which the operator never does.
        let apply = "apply --server-side --force-conflicts --subresource=status --filename=-";
        let apply: Vec<&str> = apply.split(' ').collect();
        env.kubectl(kubeconfig, &apply, &status.to_string()).unwrap();
        let engine = env.engine(FULL);
        assert_eq!(engine["spec"]["replicas"], replicas);
        assert_eq!(engine["status"]["activeGeneration"], replicas);
    }
}

#[tokio::test]
async fn the_policy_does_not_apply_to_accounts_with_similar_names() {
    let env = PolicyEnv::start().await;
    let account = |name: &str| format!("--serviceaccount={}:{name}", env.namespace);
    let whom = [
        (env.account(&env.namespace, "gateway").await, account("gateway")),
        (
            env.account(&env.namespace, "main-gateway-config").await,
            account("main-gateway-config"),
        ),
        (
            env.cluster.user_kubeconfig("jane-gateway", None).unwrap(),
            "--user=jane-gateway".to_owned(),
        ),
    ];
    env.grant_everything(
        &whom
            .each_ref()
            .map(|(kubeconfig, flag)| (kubeconfig.as_path(), flag.as_str())),
    );
    for ((kubeconfig, _), replicas) in whom.iter().zip(2..) {
        env.patch(kubeconfig, BARE, &json!({ "spec": { "replicas": replicas } }))
            .unwrap();
        assert_eq!(env.engine(BARE)["spec"]["replicas"], replicas);
    }
}

/// Else the refusals would prove nothing.
#[tokio::test]
async fn without_the_policy_a_gateway_can_change_any_field() {
    let env = PolicyEnv::start().await;
    let patch = json!({ "spec": { "replicas": 0 } });
    env.patch(&env.gateway, BARE, &patch).unwrap_err();
    let binding = ["delete", "validatingadmissionpolicybinding", &env.namespace];
    env.as_admin(&binding, "").unwrap();
    env.wait_for_policy(false);
    env.patch(&env.gateway, BARE, &patch).unwrap();
    assert_eq!(env.engine(BARE)["spec"]["replicas"], 0);
}
