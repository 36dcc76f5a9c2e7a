//! Waiting for instances.

use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::core::v1::Service;
use serde_json::{from_value, json};

use super::fixtures::{MAIN, minimal};
use super::testenv::{Component, InstanceEnv, status};
use crate::gitops::health::{FAILED, HEALTHY, IN_PROGRESS};
use crate::kubelet::pod_status::Behaviour;

const INSTANCE: &str = "fireboltinstance/main";

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_awaited_until_it_is_ready() {
    let env = InstanceEnv::start().await;
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Pending);
    env.create(&minimal(MAIN)).await;
    env.kubectl_wait(INSTANCE, "condition=Reconciling");
    env.wait_for_health::<FireboltInstance>(MAIN, IN_PROGRESS).await;
    env.kubectl_would_wait(INSTANCE, "condition=Ready");
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    env.kubectl_wait(INSTANCE, "condition=Ready");
    env.wait_for_health::<FireboltInstance>(MAIN, HEALTHY).await;
    env.kubectl_wait(INSTANCE, "jsonpath={.status.phase}=Ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_instance_has_failed_until_the_cause_is_resolved() {
    let env = InstanceEnv::start().await;
    let taken = json!({ "metadata": { "name": "main-gateway" }, "spec": { "ports": [{ "port": 80 }] } });
    env.create(&from_value::<Service>(taken).unwrap()).await;
    env.create(&minimal(MAIN)).await;
    env.kubectl_wait(INSTANCE, "condition=Stalled");
    let failed = env.wait_for_health::<FireboltInstance>(MAIN, FAILED).await;
    assert_eq!(status(&failed).phase, Some(InstancePhase::Failed));
    env.delete::<Service>("main-gateway").await;
    env.kubectl_wait(INSTANCE, "condition=Ready");
    env.wait_for_health::<FireboltInstance>(MAIN, HEALTHY).await;
}
