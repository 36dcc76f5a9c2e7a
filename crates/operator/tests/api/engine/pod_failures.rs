//! Pods that die, flap, or are many.

use std::time::Duration;

use firebolt_api::EnginePhase::{Draining, Stable, Stopped};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};

use crate::audit::AuditedRequest;
use crate::engine::faults::invariants::Invariants;
use crate::fixtures::{engine, new_image, new_replicas};
use crate::kubelet::metrics_server::Answer;
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::{Namespaced, TestEnv};

const NEW_IMAGE: &str = "registry.example/engine:2";
/// How long a flapping pod stays in one state.
const HALF_A_SECOND: Duration = Duration::from_millis(500);
/// How many times it changes.
const FLIPS: usize = 8;

fn busy(running: u32) -> Answer {
    Answer::Queries { running, suspended: 0 }
}

impl TestEnv {
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

    /// Toggles the readiness of the pod, at most once a second, and ends with a ready one.
    async fn flap(&self, pod: &str) {
        for flip in 0..FLIPS {
            let desired = flip % 2 == 1;
            let behaviour = if desired { Behaviour::Ready } else { Behaviour::Unready };
            let mut pace = tokio::time::interval(HALF_A_SECOND);
            pace.tick().await;
            self.node.set_behaviour(&self.namespace, pod, behaviour);
            let reported = async || (is_ready(&self.the::<Pod>(pod).await) == desired).then_some(());
            self.eventually(&format!("{pod} has ready: {desired}"), reported).await;
            pace.tick().await;
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A terminating pod finishes its queries, and is scraped until it is gone. Then the drain ends, because no pod of the
/// generation is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_during_the_drain_is_scraped_until_it_is_gone() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a")).await;
    env.node
        .set_behaviour(&env.namespace, "a-g0", Behaviour::HoldTermination);
    env.node.metrics(&env.namespace, "a-g0", busy(1));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "1 query left").await;
    env.delete::<Pod>("a-g0-0").await;
    env.wait_for_scrapes("a-g0-0", 3).await;
    assert_eq!(env.wait_for_phase("a", Draining).await.draining_generation, Some(0));
    // It is deleted, and its successor never starts, so the number of queries is unknown.
    env.node.set_behaviour(&env.namespace, "a-g0", Behaviour::Pending);
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    invariants.hold().await;
}

/// The StatefulSet controller replaces a deleted pod. Clients that know the address of the new pod can send it queries,
/// so it is scraped too.
#[tokio::test(flavor = "multi_thread")]
async fn the_replacement_of_a_deleted_pod_is_scraped_too() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(2)).await;
    // The other pod blocks the end of the drain until the successor runs.
    env.node.metrics(&env.namespace, "a-g0", busy(1));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "2 queries left").await;
    let killed: Pod = env.the("a-g0-0").await;
    env.delete::<Pod>("a-g0-0").await;
    env.wait_for_successor(&killed).await;
    env.node.metrics(&env.namespace, "a-g0-0", busy(7));
    env.wait_for_message("a", "8 queries left").await;
    env.node.metrics(&env.namespace, "a-g0-1", Answer::IDLE);
    env.wait_for_message("a", "7 queries left").await;
    env.wait_for_scrapes("a-g0-0", 2).await;
    assert_eq!(env.generations("a").await, [0, 1]);
    env.node.metrics(&env.namespace, "a-g0-0", Answer::IDLE);
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    invariants.hold().await;
}

/// A pod that Kubernetes reports as lost with its node cannot be scraped, and the drain does not wait for it.
#[rstest]
#[case::lost(json!({ "reason": "NodeLost" }))]
#[case::deleted(json!({ "conditions": [{
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
    // Without a time, the disruption controller would treat the condition as stale and remove it.
    "lastTransitionTime": Time(jiff::Timestamp::now()),
}] }))]
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_lost_with_its_node_counts_as_drained(#[case] lost: Value) {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node.metrics(&env.namespace, "a-g0-1", Answer::Refuse);
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    let failing = env.wait_for_reason("a", "DrainCheckFailing").await;
    assert!(failing.message.contains("a-g0-1"), "{failing:?}");
    env.patch_pod_status("a-g0-1", &lost).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    invariants.hold().await;
}

/// The node of a terminating pod does not report its end, so the StatefulSet controller waits for ever.
#[rstest]
#[case::of_a_serving_generation(0)]
#[case::of_a_new_generation(1)]
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_has_lost_a_pod_is_replaced_once(#[case] losing: i64) {
    let env = TestEnv::start_with(&["--lost-pod-timeout=2s"]).await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(2)).await;
    let (set, pod) = (format!("a-g{losing}"), format!("a-g{losing}-1"));
    if losing == 1 {
        env.node.set_behaviour(&env.namespace, "a-g1-0", Behaviour::Unready);
        env.edit_engine("a", new_image(NEW_IMAGE)).await;
        env.wait_for_message("a", "1 of 2 pods ready").await;
    }
    env.node.set_behaviour(&env.namespace, &pod, Behaviour::HoldTermination);
    let soon = DeleteParams::default().grace_period(1);
    env.api::<Pod>().delete(&pod, &soon).await.expect("delete the pod");
    let node = env.the::<Pod>(&pod).await.spec.and_then(|spec| spec.node_name);
    let cause = format!(
        "pod {pod} on node {} has been terminating for 2s after its grace period; its node may be lost",
        node.expect("the pod has a node")
    );
    let next = losing + 1;
    let status = env.wait_for_generation("a", next).await;
    assert_eq!(status.rollout_cause, Some(cause));
    // The pod is still terminating, and so is its StatefulSet.
    assert!(env.the::<StatefulSet>(&set).await.metadata.deletion_timestamp.is_some());
    assert!(env.the::<Pod>(&pod).await.metadata.deletion_timestamp.is_some());
    invariants.hold().await;
    env.force_reconcile("a", next).await;
    assert_eq!(env.status("a").await.current_generation, next);
    env.node.set_behaviour(&env.namespace, &pod, Behaviour::Ready);
    env.wait_until_gone::<StatefulSet>(&set).await;
}

/// `kubectl delete statefulset --cascade=orphan` leaves pods without a controller. They serve queries as long as they are
/// routed, finish them, and are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_outlive_their_stateful_set_serve_until_they_are_drained_and_are_then_deleted() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    let pods = ["a-g0-0", "a-g0-1"];
    env.node.metrics(&env.namespace, "a-g0", busy(1));
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Unready);
    env.kubectl(&["delete", "statefulset", "a-g0", "--cascade=orphan"])
        .expect("delete the StatefulSet");
    env.wait_for_message("a", "0 of 2 pods ready").await;
    let cause = env.status("a").await.rollout_cause.expect("a rollout has a cause");
    assert!(cause.starts_with("StatefulSet a-g0 is "), "{cause}");
    for pod in pods {
        let left = env.the::<Pod>(pod).await;
        assert!(left.metadata.owner_references.is_none() && is_ready(&left), "{left:?}");
    }
    assert_eq!(env.routed_to("a").await, Some(0));
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Ready);
    env.wait_for_message("a", "2 queries left").await;
    for pod in pods {
        assert_eq!(env.the::<Pod>(pod).await.metadata.deletion_timestamp, None);
    }
    env.node.metrics(&env.namespace, "a-g0", Answer::IDLE);
    assert_eq!(env.wait_for_generation("a", 1).await.replicas, Some(2));
    for pod in pods {
        env.wait_until_gone::<Pod>(pod).await;
    }
}

/// Flapping readiness of a stable engine starts no generation and does not change the route; each change costs at most
/// one write of the status, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn flapping_pods_of_a_stable_engine_cause_only_status_writes() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(2)).await;
    env.wait_for_reason("a", "EngineReady").await;
    let before = env.mark();
    env.flap("a-g0-1").await;
    env.wait_for_reason("a", "EngineReady").await;
    assert_few_statuses(&before.writes_but_events(&env.namespace));
    assert_eq!(env.generations("a").await, [0]);
    assert_eq!(
        (env.status("a").await.current_generation, env.routed_to("a").await),
        (0, Some(0))
    );
    invariants.hold().await;
}

/// While the rollout waits for another pod, a flapping pod changes nothing; once the rollout waits for that pod only,
/// the switch happens when both are ready, in the same generation.
#[tokio::test(flavor = "multi_thread")]
async fn flapping_pods_during_a_rollout_start_no_generation() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node.set_behaviour(&env.namespace, "a-g1-0", Behaviour::Unready);
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "1 of 2 pods ready").await;
    let before = env.mark();
    env.flap("a-g1-1").await;
    env.wait_for_message("a", "1 of 2 pods ready").await;
    assert_few_statuses(&before.writes_but_events(&env.namespace));
    let status = env.status("a").await;
    assert_eq!((status.current_generation, env.routed_to("a").await), (1, Some(0)));
    env.node.set_behaviour(&env.namespace, "a-g1-0", Behaviour::Ready);
    env.flap("a-g1-1").await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    assert_eq!(env.status("a").await.current_generation, 1);
    invariants.hold().await;
}

fn assert_few_statuses(writes: &[AuditedRequest]) {
    let others: Vec<_> = writes
        .iter()
        .filter(|write| write.resource != "fireboltengines/status")
        .collect();
    assert!(others.is_empty(), "{others:?}");
    // One for each change, unless it is reverted before it is observed; one more for a change before the flapping.
    assert!(writes.len() <= FLIPS + 1, "{} writes: {writes:?}", writes.len());
}

/// With ordinals of more than one digit, all pods are in the configuration, all are scraped, and a query in any of them
/// blocks the end of the drain.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_pods_are_all_configured_and_scraped() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(12)).await;
    assert_lists_nodes(&env, 0, 12).await;
    env.node.metrics(&env.namespace, "a-g0-1", busy(1));
    env.node.metrics(&env.namespace, "a-g0-10", busy(2));
    env.node.metrics(&env.namespace, "a-g0-11", busy(4));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "7 queries left").await;
    env.node.metrics(&env.namespace, "a-g0-1", Answer::IDLE);
    env.node.metrics(&env.namespace, "a-g0-11", Answer::IDLE);
    env.wait_for_message("a", "2 queries left").await;
    env.node.metrics(&env.namespace, "a-g0-10", Answer::IDLE);
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    for ordinal in 0..12 {
        let pod = format!("a-g0-{ordinal}");
        assert!(env.node.scrapes(&env.namespace, &pod) > 0, "{pod} was not asked");
    }
    invariants.hold().await;
}

/// Scales an engine from no pods to very many, and back to one.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_scales_from_zero_to_very_many_pods_and_back_to_one() {
    const MANY: i32 = 128;
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a").replicas(0)).await;
    env.wait_for_phase("a", Stopped).await;
    assert_lists_nodes(&env, 0, 0).await;
    env.edit_engine("a", new_replicas(MANY)).await;
    let status = env.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.replicas), (1, Some(MANY)));
    assert_lists_nodes(&env, 1, 128).await;
    env.edit_engine("a", new_replicas(1)).await;
    let status = env.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.replicas), (2, Some(1)));
    for ordinal in [0, 1, 9, 10, 99, 100, 127] {
        let pod = format!("a-g1-{ordinal}");
        assert!(env.node.scrapes(&env.namespace, &pod) > 0, "{pod} was not asked");
    }
    invariants.hold().await;
}

/// Asserts that the configuration of the generation lists this many nodes, without duplicates.
async fn assert_lists_nodes(env: &TestEnv, generation: i64, count: usize) {
    let config: ConfigMap = env.the(&format!("a-g{generation}-config")).await;
    let text = &config.data.unwrap()["config.yaml"];
    let service = format!(".a-g{generation}-hl.");
    assert_eq!(text.matches(&service).count(), count, "{text}");
    for ordinal in 0..count {
        let host = format!("a-g{generation}-{ordinal}{service}");
        assert_eq!(text.matches(&host).count(), 1, "{host} in {text}");
    }
}
