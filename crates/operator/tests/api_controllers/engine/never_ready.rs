//! C1: a new generation that never gets ready. The engine says why in its own words, the old generation serves on, and
//! whoever corrects the cause is done.

use firebolt_api::EnginePhase::{Creating, Stable};
use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::invariants::Invariants;
use crate::fixture::{IMAGE, engine, new_image};
use crate::pod_status::Behaviour;
use crate::scene::{Scene, ready};

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

impl Scene {
    /// Waits until the engine is not ready for this reason and says all of this.
    async fn wait_until_it_says(&self, engine: &str, reason: &str, parts: &[&str]) {
        let says = |engine: &FireboltEngine| {
            ready(engine).is_some_and(|ready| {
                let all = parts.iter().all(|part| ready.message.contains(part));
                ready.status == "False" && ready.reason == reason && all
            })
        };
        self.wait_for(engine, &format!("says {reason}: {parts:?}"), says).await;
    }
}

/// What goes wrong with a new generation, what is said about it, and how it is corrected.
struct Cause {
    edit: Value,
    /// Which pods of the new generation fare badly, and how.
    pods: Option<(&'static str, Behaviour)>,
    said: &'static [&'static str],
    correction: Value,
}

impl Cause {
    fn of_image(pods: &'static str, behaviour: Behaviour, said: &'static [&'static str]) -> Self {
        Self {
            edit: new_image(TYPO),
            pods: Some((pods, behaviour)),
            said,
            correction: new_image(IMAGE),
        }
    }

    fn of_cluster(edit: Value, correction: Value, said: &'static [&'static str]) -> Self {
        Self {
            edit,
            pods: None,
            said,
            correction,
        }
    }
}

/// Invariants 1, 2 and 10: while the new generation cannot get ready the message names the cause and the route is not
/// even touched; the corrected specification leads to a generation that serves, and nothing of the others is left.
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
    &["0 of 3 pods ready. Pod a-g1-0 (and 2 more) crashes", "container engine ended with exit code 3, 3 restarts"],
))]
#[case::one_pod_of_several(Cause::of_image("a-g1-1", crash(), &["2 of 3 pods ready. Pod a-g1-1", "exit code 3"]))]
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
async fn a_generation_that_cannot_start_says_why_and_leaves_the_old_one_serving(#[case] cause: Cause) {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(REPLICAS)).await;
    let route: Service = scene.the("a-service").await;
    if let Some((pods, behaviour)) = cause.pods {
        scene.node.plan(&scene.namespace, pods, behaviour);
    }
    scene.edit_engine("a", cause.edit).await;
    scene.wait_until_it_says("a", "Rolling", cause.said).await;
    let status = scene.status("a").await;
    assert_eq!(
        (status.phase, status.active_generation, status.replicas),
        (Some(Creating), 0, Some(REPLICAS))
    );
    assert_eq!(scene.generations("a").await, [0, 1]);

    let untouched: Service = scene.the("a-service").await;
    assert_eq!(untouched.resource_version(), route.resource_version());

    scene.edit_engine("a", cause.correction).await;
    scene.wait_for_phase("a", Stable).await;
    scene.wait_for_reason("a", "EngineReady").await;
    for lost in ["a-g0", "a-g1"] {
        scene.wait_until_gone::<StatefulSet>(lost).await;
    }
    assert_eq!(scene.generations("a").await, [2]);
    assert_eq!(scene.routed_to("a").await, Some(2));
    let no_claims = async || scene.list::<PersistentVolumeClaim>().await.is_empty().then_some(());
    scene.eventually("the claims go with their generation", no_claims).await;
    invariants.hold().await;
}

/// Invariant 10, and the deadline: it is reported with the cause and as a warning, and it is gone when the cause is,
/// without a new generation.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_takes_too_long_says_so_until_it_goes_on() {
    let scene = Scene::begin_with(&["--rollout-progress-deadline=1s"]).await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.node.plan(&scene.namespace, "a-g0", Behaviour::ImagePullBackOff);
    scene.create(&engine("a").0).await;
    let said = [
        "Generation 0 is not ready after 1s: 0 of 1 pods ready. Nothing serves yet.",
        "ImagePullBackOff",
        IMAGE,
    ];
    scene.wait_until_it_says("a", "ProgressDeadlineExceeded", &said).await;
    scene.node.plan(&scene.namespace, "a-g0", Behaviour::Ready);
    scene.wait_for_generation("a", 0).await;
    scene.wait_for_reason("a", "EngineReady").await;

    scene.node.plan(&scene.namespace, "a-g1", crash());
    scene.edit_engine("a", new_image(TYPO)).await;
    let said = [
        "Generation 1 is not ready after 1s",
        "Generation 0 keeps serving.",
        "Pod a-g1-0",
        "exit code 3",
    ];
    scene.wait_until_it_says("a", "ProgressDeadlineExceeded", &said).await;
    assert_eq!(scene.routed_to("a").await, Some(0));
    let warned = scene.wait_for_event("a", "ProgressDeadlineExceeded").await;
    assert_eq!(warned.severity, "Warning");
    scene.node.plan(&scene.namespace, "a-g1", Behaviour::Ready);
    scene.wait_for_generation("a", 1).await;
    scene.wait_for_reason("a", "EngineReady").await;
    invariants.hold().await;
}
