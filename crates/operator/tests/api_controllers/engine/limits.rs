//! B5: what a cluster allows.

use firebolt_api::EnginePhase::{self, Creating, Stable};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Pod, ResourceQuota, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::DeleteParams;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::{engine, new_image, sparse_sidecar};
use crate::pod_status::Behaviour;
use crate::scene::Scene;

const NEW_IMAGE: &str = "registry.example/engine:2";
/// An engine that is given up takes a handful of writes, and what is refused meanwhile is tried again with pauses. How
/// often depends on how long Kubernetes takes to end a namespace; without pauses it would be hundreds.
const WRITES_OF_AN_END: usize = 60;

fn limit(resource: &str, count: i32) -> Value {
    json!({ "spec": { "hard": { resource: count.to_string() } } })
}

/// Creates a quota, and waits until the cluster goes by it.
async fn quota(scene: &Scene, resource: &str, count: i32) {
    let mut quota = limit(resource, count);
    quota["metadata"] = json!({ "name": "limit" });
    scene
        .create(&serde_json::from_value::<ResourceQuota>(quota).unwrap())
        .await;
    quota_holds(scene, resource, count).await;
}

async fn quota_holds(scene: &Scene, resource: &str, count: i32) {
    let holds = async || {
        let status = scene.the::<ResourceQuota>("limit").await.status?;
        let hard = status.hard?.get(resource)?.0 == count.to_string();
        (hard && status.used?.contains_key(resource)).then_some(())
    };
    scene.eventually("the quota holds", holds).await;
}

/// Fault: a quota leaves no room for another pod, or for another StatefulSet. The old generation serves on, people read
/// the words of the quota; invariant 10: with more room the rollout goes on by itself.
#[rstest]
#[case::pods("pods", "FailedCreate")]
#[case::sets("count/statefulsets.apps", "WriteRefused")]
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_room_in_the_quota(#[case] resource: &str, #[case] reason: &str) {
    let scene = Scene::begin().await;
    scene.deploy(&engine("a")).await;
    quota(&scene, resource, 1).await;
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    let said = scene.wait_for_reason("a", reason).await;
    for part in ["exceeded quota: limit", "a-g1"] {
        assert!(
            said.status == "False" && said.message.contains(part),
            "{part} in {said:?}"
        );
    }
    assert_eq!(scene.routed_to("a").await, Some(0));
    assert!(scene.get::<Pod>("a-g0-0").await.is_some());
    scene.edit::<ResourceQuota>("limit", limit(resource, 2)).await;
    scene.wait_for_generation("a", 1).await;
    scene.wait_for_reason("a", "EngineReady").await;
}

/// Fault: a `LimitRange` fills in resources. Invariant 7: whatever the cluster adds to pods, it costs no generation.
#[tokio::test(flavor = "multi_thread")]
async fn resources_that_the_cluster_fills_in_cost_no_generation() {
    let scene = Scene::begin().await;
    let limits = json!({
        "type": "Container", "default": { "cpu": "2", "memory": "64Mi" },
        "defaultRequest": { "cpu": "1", "memory": "32Mi" },
    });
    let range = json!({ "metadata": { "name": "defaults" }, "spec": { "limits": [limits] } });
    scene
        .create(&serde_json::from_value::<LimitRange>(range).unwrap())
        .await;
    scene.deploy(&engine("a").sidecar(sparse_sidecar())).await;
    let pod: Pod = scene.the("a-g0-0").await;
    let engine = &pod.spec.unwrap().containers[0];
    let requests = engine.resources.clone().unwrap().requests.unwrap();
    assert_eq!(requests["memory"].0, "32Mi");
    for _ in 0..3 {
        scene.force_a_pass("a", 0).await;
    }
    assert_eq!(scene.status("a").await.current_generation, 0);
    assert_eq!(scene.generations("a").await, [0]);
}

/// Fault: a sidecar that the `restricted` standard forbids. The message names it; invariant 10: corrected, it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_the_cluster_forbids_is_named() {
    let scene = Scene::begin().await;
    scene.deploy(&engine("a")).await;
    let mut forbidden = sparse_sidecar();
    forbidden.security_context.get_or_insert_default().run_as_user = Some(0);
    let edit = |sidecar| json!({ "spec": { "template": engine("a").sidecar(sidecar).0.spec.template } });
    scene.edit_engine("a", edit(forbidden)).await;
    let said = scene.wait_for_reason("a", "FailedCreate").await;
    for part in ["a-g1", "PodSecurity", "\"side\"", "runAsUser=0"] {
        assert!(
            said.status == "False" && said.message.contains(part),
            "{part} in {said:?}"
        );
    }
    assert_eq!(scene.routed_to("a").await, Some(0));
    scene.edit_engine("a", edit(sparse_sidecar())).await;
    assert_eq!(scene.wait_for_phase("a", Stable).await.active_generation, 2);
}

/// Fault: a `PodDisruptionBudget` that allows no disruption. It is about evictions, and a rollout evicts nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_disruption_budget_does_not_disturb_a_rollout() {
    let scene = Scene::begin().await;
    scene.deploy(&engine("a").replicas(2)).await;
    let selector = json!({ "matchLabels": { "firebolt.io/engine": "a" } });
    let budget = json!({ "metadata": { "name": "budget" }, "spec": { "maxUnavailable": 0, "selector": selector } });
    scene
        .create(&serde_json::from_value::<PodDisruptionBudget>(budget).unwrap())
        .await;
    let counted = async || {
        let status = scene.the::<PodDisruptionBudget>("budget").await.status?;
        (status.expected_pods == Some(2) && status.disruptions_allowed == Some(0)).then_some(())
    };
    scene.eventually("the budget allows no disruption", counted).await;
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_generation("a", 1).await;
    scene.wait_until_gone::<Pod>("a-g0-1").await;
}

/// Fault: the namespace deleted with an engine in it, at rest and during a rollout. The operator lets go: the engine and
/// the namespace are gone, it took few writes (8), and the operator lives to look after others.
#[rstest]
#[case::at_rest(Stable)]
#[case::creating(Creating)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lets_go_of_a_namespace_that_is_deleted(#[case] phase: EnginePhase) {
    let mut scene = Scene::begin().await;
    scene.deploy(&engine("a")).await;
    if phase == Creating {
        scene.node.plan(&scene.namespace, "a-g1", Behaviour::Unready);
        scene.edit_engine("a", new_image(NEW_IMAGE)).await;
        scene
            .eventually("the new pod is there", async || scene.get::<Pod>("a-g1-0").await)
            .await;
    }
    // Kubernetes ends the pods first. Meanwhile nothing can be created here, and the engine is not told to go.
    scene.node.plan(&scene.namespace, "a-g0-0", Behaviour::HoldTermination);
    let before = scene.mark();
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    let deleted = namespaces.delete(&scene.namespace, &DeleteParams::default()).await;
    deleted.unwrap();
    let ending = async || scene.the::<Pod>("a-g0-0").await.metadata.deletion_timestamp;
    scene.eventually("the pod is told to go", ending).await;
    // The operator tries in vain to mend what somebody breaks just now.
    scene.delete::<ConfigMap>("a-g0-config").await;
    scene.delete::<Service>("a-service").await;
    let refused = async || {
        before
            .writes(&scene.namespace)
            .into_iter()
            .find(|write| write.code == 403)
    };
    scene.eventually("the operator is refused", refused).await;
    scene.node.plan(&scene.namespace, "a-g0-0", Behaviour::Ready);
    let gone = async || {
        namespaces
            .get_opt(&scene.namespace)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    };
    scene.eventually("the namespace is gone", gone).await;
    let writes = before.writes(&scene.namespace);
    assert!(writes.len() <= WRITES_OF_AN_END, "{writes:#?}");
    assert!(scene.operator_runs());
}
