//! Quotas, limit ranges, pod security, disruption budgets, and namespaces that terminate.

use firebolt_api::EnginePhase::{self, Creating, Stable};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Pod, ResourceQuota, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::DeleteParams;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixtures::{engine, new_image, sparse_sidecar};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

const NEW_IMAGE: &str = "registry.example/engine:2";
/// An engine that is being deleted takes a few writes, and rejected ones are retried with backoff. Their number depends
/// on how long Kubernetes takes to delete a namespace; without backoff it would be hundreds.
const WRITES_OF_AN_END: usize = 60;

fn limit(resource: &str, count: i32) -> Value {
    json!({ "spec": { "hard": { resource: count.to_string() } } })
}

/// Creates a quota, and waits until the cluster enforces it.
async fn quota(env: &TestEnv, resource: &str, count: i32) {
    let mut quota = limit(resource, count);
    quota["metadata"] = json!({ "name": "limit" });
    env.create(&serde_json::from_value::<ResourceQuota>(quota).unwrap())
        .await;
    quota_holds(env, resource, count).await;
}

async fn quota_holds(env: &TestEnv, resource: &str, count: i32) {
    let holds = async || {
        let status = env.the::<ResourceQuota>("limit").await.status?;
        let hard = status.hard?.get(resource)?.0 == count.to_string();
        (hard && status.used?.contains_key(resource)).then_some(())
    };
    env.eventually("the quota holds", holds).await;
}

/// A quota leaves no room for another pod, or for another StatefulSet. The old generation keeps serving and the message
/// quotes the quota; once the quota is raised, the rollout proceeds by itself.
#[rstest]
#[case::pods("pods", "FailedCreate")]
#[case::sets("count/statefulsets.apps", "WriteRefused")]
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_room_in_the_quota(#[case] resource: &str, #[case] reason: &str) {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    quota(&env, resource, 1).await;
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    let reported = env.wait_for_reason("a", reason).await;
    for part in ["exceeded quota: limit", "a-g1"] {
        assert!(
            reported.status == "False" && reported.message.contains(part),
            "{part} in {reported:?}"
        );
    }
    assert_eq!(env.routed_to("a").await, Some(0));
    assert!(env.get::<Pod>("a-g0-0").await.is_some());
    env.edit::<ResourceQuota>("limit", limit(resource, 2)).await;
    env.wait_for_generation("a", 1).await;
    env.wait_for_reason("a", "EngineReady").await;
}

/// A `LimitRange` adds default resources. Defaults of the cluster in pods start no generation.
#[tokio::test(flavor = "multi_thread")]
async fn default_resources_of_the_cluster_start_no_generation() {
    let env = TestEnv::start().await;
    let limits = json!({
        "type": "Container", "default": { "cpu": "2", "memory": "64Mi" },
        "defaultRequest": { "cpu": "1", "memory": "32Mi" },
    });
    let range = json!({ "metadata": { "name": "defaults" }, "spec": { "limits": [limits] } });
    env.create(&serde_json::from_value::<LimitRange>(range).unwrap()).await;
    env.deploy(&engine("a").sidecar(sparse_sidecar())).await;
    let pod: Pod = env.the("a-g0-0").await;
    let engine = &pod.spec.unwrap().containers[0];
    let requests = engine.resources.clone().unwrap().requests.unwrap();
    assert_eq!(requests["memory"].0, "32Mi");
    for _ in 0..3 {
        env.force_reconcile("a", 0).await;
    }
    assert_eq!(env.status("a").await.current_generation, 0);
    assert_eq!(env.generations("a").await, [0]);
}

/// A sidecar that the `restricted` Pod Security Standard forbids. The message names it; once corrected, it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_sidecar_is_named_in_the_message() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let mut forbidden = sparse_sidecar();
    forbidden.security_context.get_or_insert_default().run_as_user = Some(0);
    let edit = |sidecar| json!({ "spec": { "template": engine("a").sidecar(sidecar).0.spec.template } });
    env.edit_engine("a", edit(forbidden)).await;
    let reported = env.wait_for_reason("a", "FailedCreate").await;
    for part in ["a-g1", "PodSecurity", "\"side\"", "runAsUser=0"] {
        assert!(
            reported.status == "False" && reported.message.contains(part),
            "{part} in {reported:?}"
        );
    }
    assert_eq!(env.routed_to("a").await, Some(0));
    env.edit_engine("a", edit(sparse_sidecar())).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 2);
}

/// A `PodDisruptionBudget` that allows no disruption. It limits evictions, and a rollout evicts no pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_disruption_budget_does_not_disturb_a_rollout() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    let selector = json!({ "matchLabels": { "firebolt.io/engine": "a" } });
    let budget = json!({ "metadata": { "name": "budget" }, "spec": { "maxUnavailable": 0, "selector": selector } });
    env.create(&serde_json::from_value::<PodDisruptionBudget>(budget).unwrap())
        .await;
    let counted = async || {
        let status = env.the::<PodDisruptionBudget>("budget").await.status?;
        (status.expected_pods == Some(2) && status.disruptions_allowed == Some(0)).then_some(())
    };
    env.eventually("the budget allows no disruption", counted).await;
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_generation("a", 1).await;
    env.wait_until_gone::<Pod>("a-g0-1").await;
}

/// The namespace is deleted with an engine in it, stable or during a rollout. The operator removes its finalizer: the
/// engine and the namespace are gone after few writes, and the operator still reconciles other engines.
#[rstest]
#[case::at_rest(Stable)]
#[case::creating(Creating)]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_does_not_block_the_deletion_of_its_namespace(#[case] phase: EnginePhase) {
    let mut env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    if phase == Creating {
        env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Unready);
        env.edit_engine("a", new_image(NEW_IMAGE)).await;
        env.eventually("the new pod is there", async || env.get::<Pod>("a-g1-0").await)
            .await;
    }
    // Kubernetes deletes the pods first. Until then nothing can be created here, and the engine is not deleted yet.
    env.node
        .set_behaviour(&env.namespace, "a-g0-0", Behaviour::HoldTermination);
    let before = env.mark();
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    let deleted = namespaces.delete(&env.namespace, &DeleteParams::default()).await;
    deleted.unwrap();
    let ending = async || env.the::<Pod>("a-g0-0").await.metadata.deletion_timestamp;
    env.eventually("the pod is terminating", ending).await;
    // The operator cannot repair a change that is made now.
    env.delete::<ConfigMap>("a-g0-config").await;
    env.delete::<Service>("a-service").await;
    let refused = async || {
        before
            .writes(&env.namespace)
            .into_iter()
            .find(|write| write.code == 403)
    };
    env.eventually("the operator is refused", refused).await;
    env.node.set_behaviour(&env.namespace, "a-g0-0", Behaviour::Ready);
    let gone = async || {
        namespaces
            .get_opt(&env.namespace)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    };
    env.eventually("the namespace is gone", gone).await;
    let writes = before.writes(&env.namespace);
    assert!(writes.len() <= WRITES_OF_AN_END, "{writes:#?}");
    assert!(env.operator_runs());
}
