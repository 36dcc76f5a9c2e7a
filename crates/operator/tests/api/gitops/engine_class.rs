//! Waiting for classes.

use firebolt_api::FireboltEngineClass;
use serde_json::json;

use super::health::{FAILED, HEALTHY};
use crate::fixtures::class;
use crate::testenv::TestEnv;

const C: &str = "fireboltengineclass/c";

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_engines_can_use_is_healthy() {
    let env = TestEnv::start().await;
    env.create(&class("c").0).await;
    env.kubectl_wait(C, "condition=Ready");
    env.wait_for_health::<FireboltEngineClass>("c", HEALTHY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_class_has_failed_until_it_is_corrected() {
    let env = TestEnv::start().await;
    env.create(&class("c").bad().0).await;
    env.kubectl_wait(C, "condition=Stalled");
    env.kubectl_wait(C, "condition=Ready=false");
    env.wait_for_health::<FireboltEngineClass>("c", FAILED).await;
    let corrected = json!({ "spec": { "template": { "spec": null } } });
    env.edit::<FireboltEngineClass>("c", corrected).await;
    env.kubectl_wait(C, "condition=Ready");
    env.wait_for_health::<FireboltEngineClass>("c", HEALTHY).await;
}
