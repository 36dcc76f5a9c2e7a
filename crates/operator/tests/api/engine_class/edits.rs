//! Which edits of a class roll out, and that every engine of the class sees them.

use firebolt_api::FireboltEngineClass;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use super::testenv::CLASS;
use crate::fixtures::{class, engine, slow_to_stop};
use crate::testenv::TestEnv;

const ENGINES: [&str; 3] = ["a", "b", "d"];

impl TestEnv {
    /// An environment with a class and engines that leave everything to it, and one that has nothing to do with it.
    async fn with_consumers() -> Self {
        let env = Self::start().await;
        env.create(&class(CLASS).drain_interval(1).0).await;
        env.create(&engine("bystander").0).await;
        for name in ENGINES {
            env.create(&engine(name).class(CLASS).drain_from_class().0).await;
        }
        for name in ENGINES.into_iter().chain(["bystander"]) {
            env.wait_for_generation(name, 0).await;
        }
        env
    }

    async fn edit_class(&self, patch: Value) {
        self.edit::<FireboltEngineClass>(CLASS, patch).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_template_rolls_out_every_engine_of_the_class_and_no_other() {
    let env = TestEnv::with_consumers().await;
    env.edit_class(json!({ "spec": { "template": { "metadata": { "labels": { "team": "two" } } } } }))
        .await;
    for name in ENGINES {
        env.wait_for_generation(name, 1).await;
        assert_eq!(env.the::<Pod>(&format!("{name}-g1-0")).await.labels()["team"], "two");
    }
    env.force_reconcile("bystander", 0).await;
    assert_eq!(env.generations("bystander").await, [0]);
}

#[rstest]
#[case::rollout(json!({ "rollout": "recreate" }))]
#[case::drain_check(json!({ "drainCheckEnabled": false }))]
#[case::drain_interval(json!({ "drainCheckInterval": "7s" }))]
#[case::auto_stop(json!({ "autoStop": slow_to_stop(1) }))]
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_does_not_affect_pods_rolls_out_no_engine(#[case] change: Value) {
    let env = TestEnv::with_consumers().await;
    env.edit_class(json!({ "spec": change })).await;
    env.wait_for_class_reason(CLASS, "Admissible").await;
    for name in ENGINES {
        env.force_reconcile(name, 0).await;
        assert_eq!(env.generations(name).await, [0]);
        assert_eq!(env.status(name).await.current_generation, 0);
    }
}
