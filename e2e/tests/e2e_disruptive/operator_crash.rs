//! The operator is killed in every phase of a rollout.

use std::time::Duration;

use e2e::cluster::{Operator, TestEnv};
use firebolt_api::{EnginePhase, FireboltEngine};
use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;

const ENGINE: &str = "analytics";
/// A phase that the engine never reaches.
const UNREACHED: EnginePhase = EnginePhase::Stopped;
/// The timeout for a phase, on a small and busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_the_operator_is_killed_in_any_phase() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let traffic = env.traffic(ENGINE).await;
    let phases = [
        EnginePhase::Creating,
        EnginePhase::Switching,
        EnginePhase::Draining,
        EnginePhase::Cleaning,
    ];
    for (generation, phase) in (1..).zip(phases) {
        kill_in(&env, phase, generation).await;
        traffic.flows().await;
        env.settles(ENGINE, generation).await;
        traffic.reaches(&TestEnv::pod_names(ENGINE, generation, 1)).await;
    }
    traffic.assert_flawless().await;
}

/// Starts the rollout of a generation, and kills the operator in the phase.
async fn kill_in(env: &TestEnv, phase: EnginePhase, generation: i64) {
    let operator = Operator::running(env).await;
    forbid_to_leave(env, phase).await;
    let edit = env.engine(ENGINE).env("EDIT", &generation.to_string());
    env.apply(&edit).await;
    let is_there = |engine: &FireboltEngine| is_in(engine, phase, generation);
    let reached = tokio::time::timeout(PATIENCE, wait_for(env, is_there)).await;
    reached.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: the engine is {phase} with generation {generation}"));
    operator.freeze();
    assert!(is_there(&env.get(ENGINE).await), "the engine is not {phase} any more");
    // Before the next operator starts, so that its writes are not rejected.
    allow_to_leave(env).await;
    operator.kill().await;
}

/// Makes the API server reject a status in which an engine has left the phase. Some phases last for a few milliseconds, in
/// which the operator cannot be stopped reliably. Everything else that belongs to the phase is written as usual.
async fn forbid_to_leave(env: &TestEnv, phase: EnginePhase) {
    let name = env.namespace();
    let policy = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
          "metadata": { "name": name }, "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["compute.firebolt.io"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"],
                "resources": ["fireboltengines/status"],
            }] },
            "validations": [
                { "expression": format!("oldObject.status.phase != '{phase}' || object.status.phase == '{phase}'") },
                // Shows whether the policy is in force.
                { "expression": format!("object.status.phase != '{UNREACHED}'") },
            ],
        } },
        { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
          "metadata": { "name": name }, "spec": {
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
        } },
    ] });
    let applied = env
        .cluster()
        .kubectl_with_input(&["apply", "-f", "-"], &policy.to_string());
    applied.expect("apply the policy");
    let in_force = async || {
        let rejection = try_unreached(env).err()?.to_string();
        rejection.contains("ValidatingAdmissionPolicy").then_some(())
    };
    env.eventually("the policy is in force", in_force).await;
}

/// Deletes the policy, and waits until the API server does not apply it any more.
async fn allow_to_leave(env: &TestEnv) {
    let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    let deleted = env.cluster().kubectl(&["delete", kinds, env.namespace()]);
    deleted.expect("delete the policy");
    let without_force = async || try_unreached(env).ok().map(drop);
    env.eventually("the policy is not in force", without_force).await;
}

/// Tries whether a status with the phase [`UNREACHED`] would be accepted.
fn try_unreached(env: &TestEnv) -> localkube::Result<String> {
    let patch = json!({ "status": { "phase": UNREACHED } }).to_string();
    env.kubectl(&[
        "patch",
        "fireboltengine",
        ENGINE,
        "--subresource=status",
        "--type=merge",
        "--dry-run=server",
        "--patch",
        &patch,
    ])
}

/// Returns as soon as the status of the engine satisfies the condition.
async fn wait_for(env: &TestEnv, is_there: impl Fn(&FireboltEngine) -> bool) {
    let parameters = WatchParams::default().fields(&format!("metadata.name={ENGINE}"));
    let watch = env.api::<FireboltEngine>().watch(&parameters, "0").await;
    let mut events = watch.expect("watch the engine").boxed();
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(engine) | WatchEvent::Modified(engine) = event.expect("watch the engine")
            && is_there(&engine)
        {
            return;
        }
    }
    panic!("the watch ended too early");
}

fn is_in(engine: &FireboltEngine, phase: EnginePhase, generation: i64) -> bool {
    let status = engine.status.as_ref();
    status.is_some_and(|status| (status.phase, status.current_generation) == (Some(phase), generation))
}
