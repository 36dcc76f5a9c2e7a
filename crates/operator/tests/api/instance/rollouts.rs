//! New versions of the gateway and of the metadata service: rollouts that succeed, and rollouts that do not.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::fixtures::{MAIN, minimal};
use super::status_history::StatusHistory;
use super::testenv::{Component, InstanceEnv, condition, status};
use crate::kubelet::EMPTY_LABEL;
use crate::kubelet::pod_status::Behaviour;

/// The edit of an instance that gives its gateway another image.
fn gateway_image(image: &str) -> Value {
    let containers = json!([{ "name": "envoy", "image": image }]);
    json!({ "spec": { "gateway": { "template": { "spec": { "containers": containers } } } } })
}

impl InstanceEnv {
    /// The name of the only ReplicaSet of a Deployment.
    async fn replica_set(&self, deployment: &str) -> String {
        let sets = self.list::<ReplicaSet>().await;
        let prefix = format!("{deployment}-");
        let mut names = sets
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| name.starts_with(&prefix));
        let only = names.next().expect("a ReplicaSet of the Deployment");
        assert_eq!(names.next(), None);
        only
    }

    /// From now on, the gateway pods of this ReplicaSet are ready, and all others behave like this.
    fn set_behaviour_of_new_gateways(&self, old_set: &str, behaviour: Behaviour) {
        let behaviours = [("main-gateway", behaviour), (old_set, Behaviour::Ready)];
        self.node.set_behaviours(&self.namespace, &behaviours);
    }

    /// The images of the gateway pods that are ready.
    async fn serving_images(&self) -> Vec<String> {
        let pods = self.list::<Pod>().await;
        let gateways = pods
            .into_iter()
            .filter(|pod| pod.name_any().starts_with("main-gateway-"));
        let ready = gateways.filter(firebolt_core::pods::is_ready);
        let image = |pod: Pod| pod.spec.unwrap().containers.remove(0).image.unwrap();
        ready.map(image).collect()
    }

    /// Waits until the gateway runs this image alone.
    async fn wait_for_gateway(&self, image: &str) {
        let rolled_out = async || {
            let deployment = self.the::<Deployment>("main-gateway").await;
            let status = deployment.status.unwrap_or_default();
            let observed = status.observed_generation == deployment.metadata.generation;
            let all = (status.updated_replicas, status.replicas, status.available_replicas);
            let rolled_out = observed && all == (Some(2), Some(2), Some(2));
            (rolled_out && self.serving_images().await == [image, image]).then_some(())
        };
        self.eventually(&format!("the gateway runs {image}"), rolled_out).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_gateway_pods_keep_serving_if_the_new_image_cannot_be_pulled() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.wait_for_ready_gateways(2).await;
    let old = env.serving_images().await;
    assert_eq!(old.len(), 2);
    let set = env.replica_set("main-gateway").await;
    env.set_behaviour_of_new_gateways(&set, Behaviour::ImagePullBackOff);
    env.edit_instance(MAIN, gateway_image("registry.example/no-such:1"))
        .await;
    let stuck = env.wait_for_message(MAIN, "registry.example/no-such:1").await;
    let reported = condition(&stuck, InstanceCondition::GatewayReady);
    assert_eq!(reported.status, "False");
    assert!(
        reported
            .message
            .contains("cannot start container envoy: ImagePullBackOff"),
        "{reported:?}"
    );
    let is = status(&stuck);
    assert_eq!(is.phase, Some(InstancePhase::Degraded));
    assert_eq!(
        (is.gateway_endpoint.as_str(), is.gateway_ready, is.metadata_ready),
        ("", false, true)
    );
    assert_eq!(env.serving_images().await, old);

    env.set_behaviour(MAIN, Component::Gateway, Behaviour::Ready);
    env.edit_instance(MAIN, gateway_image("registry.example/envoy:2")).await;
    env.wait_for_gateway("registry.example/envoy:2").await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_of_the_gateway_never_leaves_ready() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let history = StatusHistory::of(&env, MAIN).await;
    let set = env.replica_set("main-gateway").await;
    // The new pods are slow to start.
    env.set_behaviour_of_new_gateways(&set, Behaviour::Pending);
    env.edit_instance(MAIN, gateway_image("registry.example/envoy:2")).await;
    let begun = async || {
        let pods = env.list::<Pod>().await;
        let gateways = pods.iter().filter(|pod| pod.name_any().starts_with("main-gateway-"));
        (gateways.count() > 2).then_some(())
    };
    env.eventually("the rollout begins", begun).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    for behaviour in [Behaviour::Unready, Behaviour::Ready] {
        env.set_behaviour_of_new_gateways(&set, behaviour);
    }
    env.wait_for_gateway("registry.example/envoy:2").await;
    env.wait_until_no_reconcile_is_scheduled().await;
    assert_eq!(history.phases(&env).await, [InstancePhase::Ready]);
    let states = history.states(&env).await;
    let addressed = |state: &FireboltInstance| !status(state).gateway_endpoint.is_empty();
    assert!(states.iter().all(addressed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_can_be_scaled_to_zero_and_back() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.edit_instance(MAIN, json!({ "spec": { "gateway": { "replicas": 0 } } }))
        .await;
    let stopped = env.wait_for_message(MAIN, "spec.gateway.replicas is 0").await;
    assert_eq!(status(&stopped).gateway_endpoint, "");
    env.edit_instance(MAIN, json!({ "spec": { "gateway": { "replicas": 3 } } }))
        .await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    env.wait_for_ready_gateways(3).await;
}

/// Who waits for `Ready` after an edit, waits for what the edit asks for.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_metadata_service_is_ready_only_when_its_new_pod_is_ready() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let history = StatusHistory::of(&env, MAIN).await;
    let old = env.replica_set("main-metadata").await;
    // The old pod stays ready for as long as it is there. The new one is not ready before that is reported.
    let behaviours = [
        ("main-metadata", Behaviour::Pending),
        ("main-metadata-pg", Behaviour::Ready),
        (old.as_str(), Behaviour::Ready),
    ];
    env.node.set_behaviours(&env.namespace, &behaviours);
    let containers = json!([{ "name": "metadata", "image": "registry.example/metadata:2" }]);
    let template = json!({ "spec": { "containers": containers } });
    let edit = json!({ "spec": { "metadata": { "template": template, "configFormat": "yaml" } } });
    let edited = env.edit_instance(MAIN, edit).await.metadata.generation;
    env.wait_for_message(MAIN, "The metadata service is not ready").await;
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let replaced = async || {
        let pods = env.list::<Pod>().await;
        let is_metadata = |pod: &&Pod| pod.labels()["firebolt.io/component"] == "metadata";
        let pod = pods
            .iter()
            .find(is_metadata)
            .filter(|pod| firebolt_core::pods::is_ready(pod))?;
        let container = &pod.spec.as_ref()?.containers[0];
        let is_new = container.image.as_deref() == Some("registry.example/metadata:2");
        is_new.then(|| container.args.clone())
    };
    let arguments = env.eventually("the new one is ready", replaced).await;
    assert_eq!(
        arguments,
        Some(["--config", "/configs/config.yaml"].map(str::to_owned).to_vec())
    );
    env.wait_until_no_reconcile_is_scheduled().await;
    let states = history.states(&env).await;
    let of_edit = states
        .iter()
        .map(status)
        .filter(|status| status.observed_generation == edited);
    let mut ready: Vec<bool> = of_edit.map(|status| status.metadata_ready).collect();
    ready.dedup();
    assert_eq!(ready, [false, true], "ready means that the new one is");
}

/// Values that are empty are applied to the pods of both components, and so is their removal.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_value_of_a_template_reaches_the_pods_and_leaves_them() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let template = |value: &Value| {
        let entries = json!({ EMPTY_LABEL: value });
        json!({ "template": {
            "metadata": { "labels": entries, "annotations": entries }, "spec": { "nodeSelector": entries },
        } })
    };
    for value in [json!(""), json!(null)] {
        let edit = json!({ "spec": { "metadata": template(&value), "gateway": template(&value) } });
        env.edit_instance(MAIN, edit).await;
        for (component, count) in [("metadata", 1), ("gateway", 2)] {
            let shown = async || {
                let pods = env.list::<Pod>().await;
                let of_component = pods.iter().filter(|pod| {
                    pod.labels()["firebolt.io/component"] == component && pod.metadata.deletion_timestamp.is_none()
                });
                let pods: Vec<Value> = of_component.map(|pod| serde_json::to_value(pod).unwrap()).collect();
                let places = ["/metadata/labels", "/metadata/annotations", "/spec/nodeSelector"];
                let of_pod = |pod: &Value| {
                    let entries = places.map(|place| pod.pointer(place).map(|map| map[EMPTY_LABEL].clone()));
                    entries.map(Option::unwrap_or_default) == [value.clone(), value.clone(), value.clone()]
                };
                (pods.len() == count && pods.iter().all(of_pod)).then_some(())
            };
            env.eventually(&format!("the pods of {component} have {value}"), shown)
                .await;
        }
        env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }
}
