//! A new generation that never becomes ready: the engine reports the cause, the old generation keeps serving, and a
//! corrected spec rolls out.

use firebolt_api::EnginePhase::{Creating, Stable};
use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::invariants::Invariants;
use crate::fixtures::{IMAGE, engine, new_image};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::{TestEnv, ready};

const TYPO: &str = "registry.example/engine:typo";
const REPLICAS: i32 = 3;

fn crash() -> Behaviour {
    Behaviour::CrashLoop { exit_code: 3 }
}

fn pod_spec(fields: &Value) -> Value {
    json!({ "spec": { "template": { "spec": fields } } })
}

fn node_selector(value: &Value) -> Value {
    pod_spec(&json!({ "nodeSelector": { "example.com/disk": value } }))
}

fn claims(class: &Value) -> Value {
    json!({ "spec": { "storage": { "persistentVolumeClaim": class } } })
}

impl TestEnv {
    /// Waits until the engine is not ready for this reason, with all of these parts in the message.
    async fn wait_for_message_parts(&self, engine: &str, reason: &str, parts: &[&str]) {
        let says = |engine: &FireboltEngine| {
            ready(engine).is_some_and(|ready| {
                let all = parts.iter().all(|part| ready.message.contains(part));
                ready.status == "False" && ready.reason == reason && all
            })
        };
        self.wait_for(engine, &format!("says {reason}: {parts:?}"), says).await;
    }
}

/// A failure of a new generation, the expected message, and the correction.
struct Cause {
    edit: Value,
    /// Which pods of the new generation fail, and how.
    pods: Option<(&'static str, Behaviour)>,
    expected: &'static [&'static str],
    correction: Value,
}

impl Cause {
    fn of_image(pods: &'static str, behaviour: Behaviour, expected: &'static [&'static str]) -> Self {
        Self {
            edit: new_image(TYPO),
            pods: Some((pods, behaviour)),
            expected,
            correction: new_image(IMAGE),
        }
    }

    fn of_cluster(edit: Value, correction: Value, expected: &'static [&'static str]) -> Self {
        Self {
            edit,
            pods: None,
            expected,
            correction,
        }
    }
}

/// While the new generation cannot become ready, the message names the cause and the route is not written; the
/// corrected spec leads to a generation that serves, and the other generations are deleted.
#[rstest]
#[case::image_pull(Cause::of_image(
    "a-g1",
    Behaviour::ErrImagePull,
    &["0 of 3 pods ready. Pod a-g1-0 (and 2 more) cannot start container engine: ErrImagePull: ", TYPO],
))]
#[case::image_pull_again(Cause::of_image(
    "a-g1",
    Behaviour::ImagePullBackOff,
    &["0 of 3 pods ready. Pod a-g1-0 (and 2 more) cannot start container engine: ImagePullBackOff: ", TYPO],
))]
#[case::crash_loop(Cause::of_image(
    "a-g1",
    crash(),
    &[
        "0 of 3 pods ready. Pod a-g1-0 (and 2 more) is in a crash loop",
        "container engine exited with code 3, 3 restarts",
    ],
))]
#[case::one_pod_of_several(Cause::of_image("a-g1-1", crash(), &["2 of 3 pods ready. Pod a-g1-1", "exited with code 3"]))]
#[case::unschedulable(Cause::of_cluster(
    node_selector(&json!("none-has-it")),
    node_selector(&Value::Null),
    &["0 of 3 pods ready. Pod a-g1-0 (and 2 more) cannot be scheduled", "didn't match Pod's node affinity/selector"],
))]
#[case::unbound_claim(Cause::of_cluster(
    claims(&json!({ "storageClassName": "missing" })),
    claims(&Value::Null),
    &["0 of 3 pods ready. Pod a-g1-0 (and 2 more) cannot be scheduled", "unbound immediate PersistentVolumeClaims"],
))]
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_cannot_start_reports_the_cause_and_the_old_one_keeps_serving(#[case] cause: Cause) {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(REPLICAS)).await;
    let route: Service = env.the("a-service").await;
    if let Some((pods, behaviour)) = cause.pods {
        env.node.set_behaviour(&env.namespace, pods, behaviour);
    }
    env.edit_engine("a", cause.edit).await;
    env.wait_for_message_parts("a", "Rolling", cause.expected).await;
    let status = env.status("a").await;
    assert_eq!(
        (status.phase, status.active_generation, status.replicas),
        (Some(Creating), 0, Some(REPLICAS))
    );
    assert_eq!(env.generations("a").await, [0, 1]);

    let untouched: Service = env.the("a-service").await;
    assert_eq!(untouched.resource_version(), route.resource_version());

    env.edit_engine("a", cause.correction).await;
    env.wait_for_phase("a", Stable).await;
    env.wait_for_reason("a", "EngineReady").await;
    for lost in ["a-g0", "a-g1"] {
        env.wait_until_gone::<StatefulSet>(lost).await;
    }
    assert_eq!(env.generations("a").await, [2]);
    assert_eq!(env.routed_to("a").await, Some(2));
    let no_claims = async || env.list::<PersistentVolumeClaim>().await.is_empty().then_some(());
    env.eventually("the claims go with their generation", no_claims).await;
    invariants.hold().await;
}

/// A rollout beyond its deadline is reported with the cause and as a warning; the report is cleared once the cause is
/// fixed, without a new generation.
#[tokio::test(flavor = "multi_thread")]
async fn an_exceeded_rollout_deadline_is_reported_until_the_rollout_proceeds() {
    let env = TestEnv::start_with(&["--rollout-progress-deadline=1s"]).await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.node
        .set_behaviour(&env.namespace, "a-g0", Behaviour::ImagePullBackOff);
    env.create(&engine("a").0).await;
    let expected = [
        "Generation 0 is not ready after 1s: 0 of 1 pods ready. No generation is serving queries.",
        "ImagePullBackOff",
        IMAGE,
    ];
    env.wait_for_message_parts("a", "ProgressDeadlineExceeded", &expected)
        .await;
    env.node.set_behaviour(&env.namespace, "a-g0", Behaviour::Ready);
    env.wait_for_generation("a", 0).await;
    env.wait_for_reason("a", "EngineReady").await;

    env.node.set_behaviour(&env.namespace, "a-g1", crash());
    env.edit_engine("a", new_image(TYPO)).await;
    let expected = [
        "Generation 1 (`spec.template.spec.containers[engine].image` changed",
        ") is not ready after 1s",
        "Generation 0 continues to serve queries.",
        "Pod a-g1-0",
        "exited with code 3",
    ];
    env.wait_for_message_parts("a", "ProgressDeadlineExceeded", &expected)
        .await;
    assert_eq!(env.routed_to("a").await, Some(0));
    let warned = env.wait_for_event("a", "ProgressDeadlineExceeded").await;
    assert_eq!(warned.severity, "Warning");
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Ready);
    env.wait_for_generation("a", 1).await;
    env.wait_for_reason("a", "EngineReady").await;
    invariants.hold().await;
}
