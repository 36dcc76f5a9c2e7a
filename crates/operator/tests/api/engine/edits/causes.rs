//! The cause of a rollout, with the fields that the API server adds to the live objects.

use firebolt_api::FireboltEngineClass;
use serde_json::json;

use crate::fixtures::{class, engine, new_image};
use crate::testenv::TestEnv;

#[tokio::test(flavor = "multi_thread")]
async fn each_rollout_names_the_field_that_changed_and_who_sets_it() {
    let env = TestEnv::start().await;
    env.create(&class("c").pod_label("team", "one").0).await;
    env.deploy(&engine("a").class("c")).await;
    assert_eq!(env.status("a").await.rollout_cause, None);
    let labels = json!({ "spec": { "template": { "metadata": { "labels": { "team": "two" } } } } });
    env.edit::<FireboltEngineClass>("c", labels).await;
    assert_eq!(
        env.cause_of(1).await,
        "`spec.template.metadata.labels.team` of class c changed from one to two"
    );
    let edits = [
        (
            new_image("registry.example/engine:2"),
            "`spec.template.spec.containers[engine].image` changed from registry.example/engine:1 to \
             registry.example/engine:2",
        ),
        (
            json!({ "spec": { "customEngineConfig": { "x": 1 } } }),
            "`spec.customEngineConfig.x` changed",
        ),
        (
            json!({ "spec": { "engineClassRef": null } }),
            "`metadata.labels.team` was removed from the pods",
        ),
        (
            json!({ "spec": { "replicas": 2 } }),
            "`spec.replicas` changed from 1 to 2",
        ),
    ];
    for (generation, (edit, cause)) in (2..).zip(edits) {
        env.edit_engine("a", edit).await;
        assert_eq!(env.cause_of(generation).await, cause);
    }
}

impl TestEnv {
    /// The cause of this generation of engine `a`, as its status and its event report it.
    async fn cause_of(&self, generation: i64) -> String {
        let status = self.wait_for_generation("a", generation).await;
        let cause = status.rollout_cause.expect("a cause");
        let reported = format!("Rolling out generation {generation}: {cause}.");
        let event = async || {
            let events = self.events("a").await;
            events.iter().any(|event| event.message == reported).then_some(())
        };
        self.eventually(&reported, event).await;
        cause
    }
}
