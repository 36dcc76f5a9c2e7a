//! Waiting for engines.

use firebolt_api::EnginePhase::{Stable, Stopped};
use firebolt_api::FireboltEngine;
use serde_json::json;

use super::health::{FAILED, HEALTHY, IN_PROGRESS, health};
use crate::fixtures::{class, engine, new_image};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

const A: &str = "fireboltengine/a";

fn abnormal(engine: &FireboltEngine) -> Vec<&str> {
    let conditions = engine.status.iter().flat_map(|status| &status.conditions);
    let types = conditions.map(|condition| condition.type_.as_str());
    types
        .filter(|type_| ["Reconciling", "Stalled"].contains(type_))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_no_operator_has_observed_is_awaited_with_the_expressions_of_the_handbook() {
    let env = TestEnv::without_operator().await;
    let new = env.create(&engine("a").0).await;
    assert_eq!(health(&new), ["Current", "Unknown", "Progressing"]);
    env.kubectl_would_wait(A, "condition=Ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_engine_is_healthy() {
    let env = TestEnv::start().await;
    env.create(&engine("a").replicas(2).0).await;
    env.kubectl_wait(A, "condition=Ready");
    let running = env.wait_for_health::<FireboltEngine>("a", HEALTHY).await;
    assert_eq!(abnormal(&running), [""; 0]);
    env.kubectl_wait(A, "jsonpath={.status.readyReplicas}=2");
    env.kubectl_wait(A, "jsonpath={.status.phase}=stable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_engine_is_awaited() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Pending);
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.kubectl_wait(A, "condition=Reconciling");
    env.kubectl_wait(A, "condition=Ready=false");
    let rolling = env.wait_for_health::<FireboltEngine>("a", IN_PROGRESS).await;
    assert_eq!(abnormal(&rolling), ["Reconciling"]);
    env.kubectl_would_wait(A, "condition=Ready");

    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Ready);
    env.kubectl_wait(A, "condition=Ready");
    env.wait_for_health::<FireboltEngine>("a", HEALTHY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_rollout_is_stuck_has_failed_until_its_pods_are_ready() {
    let env = TestEnv::start_with(&["--rollout-progress-deadline=1s"]).await;
    env.deploy(&engine("a")).await;
    env.node
        .set_behaviour(&env.namespace, "a-g1", Behaviour::ImagePullBackOff);
    env.edit_engine("a", new_image("registry.example/engine:typo")).await;
    env.kubectl_wait(A, "condition=Stalled");
    let stuck = env.wait_for_health::<FireboltEngine>("a", FAILED).await;
    assert_eq!(abnormal(&stuck), ["Stalled"]);
    env.kubectl_would_wait(A, "condition=Ready");

    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Ready);
    env.kubectl_wait(A, "condition=Ready");
    env.wait_for_health::<FireboltEngine>("a", HEALTHY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_edit_is_refused_has_failed_until_that_is_corrected() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", json!({ "spec": { "engineClassRef": "c" } })).await;
    env.kubectl_wait(A, "condition=Stalled");
    let stuck = env.wait_for_health::<FireboltEngine>("a", FAILED).await;
    assert_eq!(abnormal(&stuck), ["Stalled"]);

    env.create(&class("c").pod_label("team", "one").0).await;
    env.wait_for_phase("a", Stable).await;
    env.wait_for_health::<FireboltEngine>("a", HEALTHY).await;
    env.wait_for_generation("a", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_objects_are_refused_has_failed() {
    let env = TestEnv::start().await;
    let invalid = json!({ "spec": { "template": { "metadata": { "labels": { "not a label": "x" } } } } });
    env.deploy(&engine("a")).await;
    env.edit_engine("a", invalid).await;
    env.wait_for_reason("a", "WriteRefused").await;
    env.kubectl_wait(A, "condition=Stalled");
    env.wait_for_health::<FireboltEngine>("a", FAILED).await;
}

/// kstatus knows `Ready` alone and would wait for ever, which is why the handbook has expressions.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_is_settled_for_tools_with_the_expressions_of_the_handbook() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", json!({ "spec": { "replicas": 0 } })).await;
    env.kubectl_wait(A, "jsonpath={.status.phase}=stopped");
    env.wait_for_phase("a", Stopped).await;
    let stopped = env
        .wait_for_health::<FireboltEngine>("a", ["InProgress", "Current", "Suspended"])
        .await;
    assert_eq!(abnormal(&stopped), [""; 0]);
    env.kubectl_wait(A, r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}=Stopped"#);
    env.kubectl_would_wait(A, "condition=Ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_is_healthy_with_all_of_its_pods_alone() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node.set_behaviour(&env.namespace, "a-g0-1", Behaviour::Unready);
    env.kubectl_wait(A, "jsonpath={.status.readyReplicas}=1");
    env.wait_for_health::<FireboltEngine>("a", IN_PROGRESS).await;
}
