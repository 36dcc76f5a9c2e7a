//! C2: pods that die, flap or are many.

use std::time::Duration;

use firebolt_api::EnginePhase::{Draining, Stable, Stopped};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};

use crate::audit::Write;
use crate::engine::faults::invariants::Invariants;
use crate::fixture::{engine, new_image, new_replicas};
use crate::metrics_server::Answer;
use crate::pod_status::Behaviour;
use crate::scene::{Namespaced, Scene};

const NEW_IMAGE: &str = "registry.example/engine:2";
/// How long a pod that flaps stays as it is.
const HALF_A_SECOND: Duration = Duration::from_millis(500);
/// How often it changes.
const FLIPS: usize = 8;

fn busy(running: u32) -> Answer {
    Answer::Queries { running, suspended: 0 }
}

impl Scene {
    /// Waits until another object has taken the name of this one.
    async fn wait_for_successor<K: Namespaced>(&self, old: &K) -> K {
        let name = old.name_any();
        let new = async || self.get::<K>(&name).await.filter(|new| new.uid() != old.uid());
        self.eventually(&format!("{name} has a successor"), new).await
    }

    async fn patch_pod_status(&self, name: &str, status: &Value) {
        let patch = Patch::Strategic(json!({ "status": status }));
        let patched = self
            .api::<Pod>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap_or_else(|error| panic!("patch the status of {name}: {error}"));
    }

    /// Has the pod lose and regain its readiness, no more than once a second, and ends with a ready one.
    async fn flap(&self, pod: &str) {
        for flip in 0..FLIPS {
            let wanted = flip % 2 == 1;
            let behaviour = if wanted { Behaviour::Ready } else { Behaviour::Unready };
            let mut pace = tokio::time::interval(HALF_A_SECOND);
            pace.tick().await;
            self.node.plan(&self.namespace, pod, behaviour);
            let reported = async || (is_ready(&self.the::<Pod>(pod).await) == wanted).then_some(());
            self.eventually(&format!("{pod} has ready: {wanted}"), reported).await;
            pace.tick().await;
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Invariant 6: a pod that is told to end finishes its queries, and is asked until it is gone. Then the drain ends, for
/// nothing of the generation runs any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_killed_while_it_drains_is_asked_until_it_is_gone() {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a")).await;
    scene.node.plan(&scene.namespace, "a-g0", Behaviour::HoldTermination);
    scene.node.metrics(&scene.namespace, "a-g0", busy(1));
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_message("a", "1 query left").await;
    scene.delete::<Pod>("a-g0-0").await;
    scene.wait_for_scrapes("a-g0-0", 3).await;
    assert_eq!(scene.wait_for_phase("a", Draining).await.draining_generation, Some(0));
    // It goes, and its successor never starts, so that nobody can say that there are no queries.
    scene.node.plan(&scene.namespace, "a-g0", Behaviour::Pending);
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 1);
    scene.wait_until_gone::<StatefulSet>("a-g0").await;
    invariants.hold().await;
}

/// Invariant 6: the StatefulSet controller makes a new pod for one that is killed. Whoever knows its address can send
/// it queries, so it is asked too.
#[tokio::test(flavor = "multi_thread")]
async fn the_successor_of_a_killed_pod_is_asked_too() {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(2)).await;
    // The other pod holds the drain until the successor is up.
    scene.node.metrics(&scene.namespace, "a-g0", busy(1));
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_message("a", "2 queries left").await;
    let killed: Pod = scene.the("a-g0-0").await;
    scene.delete::<Pod>("a-g0-0").await;
    scene.wait_for_successor(&killed).await;
    scene.node.metrics(&scene.namespace, "a-g0-0", busy(7));
    scene.wait_for_message("a", "8 queries left").await;
    scene.node.metrics(&scene.namespace, "a-g0-1", Answer::IDLE);
    scene.wait_for_message("a", "7 queries left").await;
    scene.wait_for_scrapes("a-g0-0", 2).await;
    assert_eq!(scene.generations("a").await, [0, 1]);
    scene.node.metrics(&scene.namespace, "a-g0-0", Answer::IDLE);
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 1);
    invariants.hold().await;
}

/// Invariant 10: what Kubernetes says is lost with its node cannot be asked, and is not waited for.
#[rstest]
#[case::lost(json!({ "reason": "NodeLost" }))]
#[case::deleted(json!({ "conditions": [{
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
    // Without a time, the disruption controller would take it for an old one and take it back.
    "lastTransitionTime": Time(jiff::Timestamp::now()),
}] }))]
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_lost_with_its_node_counts_as_drained(#[case] lost: Value) {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.node.metrics(&scene.namespace, "a-g0-1", Answer::Refuse);
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    let failing = scene.wait_for_reason("a", "DrainCheckFailing").await;
    assert!(failing.message.contains("a-g0-1"), "{failing:?}");
    scene.patch_pod_status("a-g0-1", &lost).await;
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 1);
    scene.wait_until_gone::<StatefulSet>("a-g0").await;
    invariants.hold().await;
}

/// Invariants 1 and 7: readiness that comes and goes starts no generation and moves no route; each change costs one
/// write of the status at most, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_flap_at_rest_cost_a_status_and_nothing_else() {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.wait_for_reason("a", "EngineReady").await;
    let before = scene.mark();
    scene.flap("a-g0-1").await;
    scene.wait_for_reason("a", "EngineReady").await;
    assert_few_statuses(&before.writes_but_events(&scene.namespace));
    assert_eq!(scene.generations("a").await, [0]);
    assert_eq!(
        (scene.status("a").await.current_generation, scene.routed_to("a").await),
        (0, Some(0))
    );
    invariants.hold().await;
}

/// Invariants 1 and 5: while another pod holds the rollout up, one that flaps changes nothing; and once only that one is
/// left, the switch happens when both are ready, in the same generation.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_flap_in_a_rollout_start_no_generation() {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.node.plan(&scene.namespace, "a-g1-0", Behaviour::Unready);
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_message("a", "1 of 2 pods ready").await;
    let before = scene.mark();
    scene.flap("a-g1-1").await;
    scene.wait_for_message("a", "1 of 2 pods ready").await;
    assert_few_statuses(&before.writes_but_events(&scene.namespace));
    let status = scene.status("a").await;
    assert_eq!((status.current_generation, scene.routed_to("a").await), (1, Some(0)));
    scene.node.plan(&scene.namespace, "a-g1-0", Behaviour::Ready);
    scene.flap("a-g1-1").await;
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 1);
    assert_eq!(scene.status("a").await.current_generation, 1);
    invariants.hold().await;
}

fn assert_few_statuses(writes: &[Write]) {
    let others: Vec<_> = writes
        .iter()
        .filter(|write| write.resource != "fireboltengines/status")
        .collect();
    assert!(others.is_empty(), "{others:?}");
    // One for each change, unless it is over before it is seen; one more for what was under way before.
    assert!(writes.len() <= FLIPS + 1, "{} writes: {writes:?}", writes.len());
}

/// Invariant 6, for numbers of more than one digit: all pods know of each other, all are asked, and any of them holds
/// the drain.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_pods_know_of_each_other_and_are_all_asked() {
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(12)).await;
    assert_lists_nodes(&scene, 0, 12).await;
    scene.node.metrics(&scene.namespace, "a-g0-1", busy(1));
    scene.node.metrics(&scene.namespace, "a-g0-10", busy(2));
    scene.node.metrics(&scene.namespace, "a-g0-11", busy(4));
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_message("a", "7 queries left").await;
    scene.node.metrics(&scene.namespace, "a-g0-1", Answer::IDLE);
    scene.node.metrics(&scene.namespace, "a-g0-11", Answer::IDLE);
    scene.wait_for_message("a", "2 queries left").await;
    scene.node.metrics(&scene.namespace, "a-g0-10", Answer::IDLE);
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 1);
    for ordinal in 0..12 {
        let pod = format!("a-g0-{ordinal}");
        assert!(scene.node.scrapes(&scene.namespace, &pod) > 0, "{pod} was not asked");
    }
    invariants.hold().await;
}

/// Invariants 1 to 6 at both ends of what people ask for: from nothing to very many pods, and back to one.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_from_none_to_very_many_pods_and_back_to_one() {
    const MANY: i32 = 128;
    let scene = Scene::begin().await;
    let invariants = Invariants::watch(&scene.cluster, &scene.namespace, "a").await;
    scene.deploy(&engine("a").replicas(0)).await;
    scene.wait_for_phase("a", Stopped).await;
    assert_lists_nodes(&scene, 0, 0).await;
    scene.edit_engine("a", new_replicas(MANY)).await;
    let status = scene.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.replicas), (1, Some(MANY)));
    assert_lists_nodes(&scene, 1, 128).await;
    scene.edit_engine("a", new_replicas(1)).await;
    let status = scene.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.replicas), (2, Some(1)));
    for ordinal in [0, 1, 9, 10, 99, 100, 127] {
        let pod = format!("a-g1-{ordinal}");
        assert!(scene.node.scrapes(&scene.namespace, &pod) > 0, "{pod} was not asked");
    }
    invariants.hold().await;
}

/// The configuration of the generation names so many nodes, each once.
async fn assert_lists_nodes(scene: &Scene, generation: i64, count: usize) {
    let config: ConfigMap = scene.the(&format!("a-g{generation}-config")).await;
    let text = &config.data.unwrap()["config.yaml"];
    let service = format!(".a-g{generation}-hl.");
    assert_eq!(text.matches(&service).count(), count, "{text}");
    for ordinal in 0..count {
        let host = format!("a-g{generation}-{ordinal}{service}");
        assert_eq!(text.matches(&host).count(), 1, "{host} in {text}");
    }
}
