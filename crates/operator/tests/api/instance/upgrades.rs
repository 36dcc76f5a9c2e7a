//! Another version of the operator, which renders other pods: here, one with other default images.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use firebolt_api::condition::InstanceCondition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::children::at;
use super::fixtures::{MAIN, minimal};
use super::testenv::{InstanceEnv, condition};

const OTHER_IMAGES: [&str; 4] = [
    "--envoy-image=registry.example/envoy:other",
    "--metadata-image=registry.example/metadata:other",
    "--postgres-image=registry.example/postgres:other",
    "--wake-agent-image=registry.example/wake-agent:other",
];

const WORKLOADS: [(&str, &str); 3] = [
    ("StatefulSet", "main-metadata-pg"),
    ("Deployment", "main-metadata"),
    ("Deployment", "main-gateway"),
];
const CONFIGS: [&str; 2] = ["main-metadata-config", "main-gateway-config"];

/// Where the images of the gateway are.
const GATEWAY_IMAGES: [&str; 2] = [
    "/spec/template/spec/containers/0/image",
    "/spec/template/spec/containers/1/image",
];

impl InstanceEnv {
    /// Replaces the operator by one with these flags.
    fn restart_operator(&mut self, flags: &[&str]) {
        self.kill_operator();
        self.start_operator_with_flags(flags);
    }

    /// The specs of everything with pods, its pods, and what they read.
    async fn specs(&self) -> BTreeMap<String, Value> {
        let mut specs = BTreeMap::new();
        for (kind, name) in WORKLOADS {
            let workload = self.known(kind, name).await;
            specs.insert(name.to_owned(), json!([workload.metadata.uid, at(&workload, "/spec")]));
        }
        for pod in self.list::<Pod>().await {
            specs.insert(pod.name_any(), json!(pod.metadata.uid));
        }
        for name in CONFIGS {
            let config = self.known("ConfigMap", name).await;
            specs.insert(name.to_owned(), json!([config.metadata.uid, at(&config, "/data")]));
        }
        specs
    }

    /// The generations of everything with pods, which count its changes.
    async fn generations(&self) -> Vec<Option<i64>> {
        let mut generations = Vec::new();
        for (kind, name) in WORKLOADS {
            generations.push(self.known(kind, name).await.metadata.generation);
        }
        generations
    }

    async fn wait_for_outdated(&self, components: &str) {
        let expected = format!("rendered the pods of {components}; this one");
        let says = |it: &FireboltInstance| {
            let outdated = condition(it, InstanceCondition::RenderingOutdated);
            outdated.message.contains(&expected)
        };
        self.wait_for(MAIN, &format!("has outdated pods of {components}"), says)
            .await;
    }

    /// Waits until no component is outdated.
    async fn wait_for_current(&self) {
        let is_current = |it: &FireboltInstance| condition(it, InstanceCondition::RenderingOutdated).reason.is_empty();
        self.wait_for(MAIN, "has no outdated pods", is_current).await;
    }

    async fn gateway_images(&self) -> [Value; 2] {
        let gateway = self.known("Deployment", "main-gateway").await;
        GATEWAY_IMAGES.map(|path| at(&gateway, path))
    }
}

const EVERYTHING: &str = "PostgreSQL, the metadata service and the gateway";

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_restarts_nothing_until_the_instance_is_edited() {
    let mut env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let (before, generations) = (env.specs().await, env.generations().await);
    env.restart_operator(&OTHER_IMAGES);
    env.wait_for_outdated(EVERYTHING).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    assert_eq!(env.specs().await, before);
    assert_eq!(env.generations().await, generations);

    env.restart_operator(&[]);
    env.wait_for_current().await;
    env.wait_until_no_reconcile_is_scheduled().await;
    assert_eq!(env.specs().await, before, "a rollback changes nothing either");
    assert_eq!(env.generations().await, generations);

    env.restart_operator(&OTHER_IMAGES);
    env.wait_for_outdated(EVERYTHING).await;
    let label = json!({ "metadata": { "labels": { "team": "data" } } });
    env.edit_instance(MAIN, json!({ "spec": { "gateway": { "template": label } } }))
        .await;
    env.wait_for_outdated("PostgreSQL and the metadata service").await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let adopted = ["registry.example/envoy:other", "registry.example/wake-agent:other"];
    assert_eq!(env.gateway_images().await, adopted);
    let mut after = env.specs().await;
    after.retain(|name, _| !name.starts_with("main-gateway"));
    assert!(after.iter().all(|(name, spec)| before[name] == *spec), "{after:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_pods_that_another_client_changes_are_restored_as_they_were() {
    let mut env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.restart_operator(&OTHER_IMAGES);
    env.wait_for_outdated(EVERYTHING).await;
    let before = env.gateway_images().await;
    env.change(
        "Deployment",
        "main-gateway",
        GATEWAY_IMAGES[0],
        &json!("registry.example/theirs:1"),
    )
    .await;
    let restored = async || (env.gateway_images().await == before).then_some(());
    env.eventually("the image is restored", restored).await;

    env.edit_instance(MAIN, json!({ "spec": { "gateway": { "replicas": 3 } } }))
        .await;
    env.wait_for_ready_gateways(3).await;
    assert_eq!(env.gateway_images().await, before, "scaled as it is");

    // Its pods cannot stay without their configuration.
    let lost = env.remove("ConfigMap", "main-gateway-config").await;
    env.wait_for_another("ConfigMap", "main-gateway-config", &lost).await;
    let adopted = ["registry.example/envoy:other", "registry.example/wake-agent:other"];
    let anew = async || (env.gateway_images().await == adopted).then_some(());
    env.eventually("the gateway is rendered anew", anew).await;
}

/// The handbook tells to.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_the_record_of_its_pods_adopts_the_current_rendering() {
    let mut env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.restart_operator(&OTHER_IMAGES);
    env.wait_for_outdated(EVERYTHING).await;
    for (kind, name) in WORKLOADS {
        let without = json!({ "metadata": { "annotations": { "firebolt.io/pod-template": null } } });
        env.merge(kind, name, without).await;
    }
    env.wait_for_current().await;
    for (kind, name) in WORKLOADS {
        let workload = env.known(kind, name).await;
        let image = at(&workload, GATEWAY_IMAGES[0]);
        assert!(image.as_str().unwrap().ends_with(":other"), "{name}: {image}");
    }
}

/// What an earlier build left behind, which recorded neither inputs nor pods.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_an_earlier_build_is_adopted_without_a_restart() {
    let mut env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let before = env.specs().await;
    env.kill_operator();
    for (kind, name) in WORKLOADS {
        let keys = ["inputs-hash", "pod-template", "rendering-hash", "config-hash"];
        let records: BTreeMap<String, Value> = keys
            .into_iter()
            .map(|key| (format!("firebolt.io/{key}"), Value::Null))
            .collect();
        env.merge(kind, name, json!({ "metadata": { "annotations": records } }))
            .await;
    }
    env.start_operator_with_flags(&OTHER_IMAGES);
    env.wait_for_outdated(EVERYTHING).await;
    for (kind, name) in WORKLOADS {
        let recorded = async || {
            let workload = env.known(kind, name).await;
            workload
                .annotations()
                .contains_key("firebolt.io/pod-template")
                .then_some(())
        };
        env.eventually(&format!("{name} has records"), recorded).await;
    }
    env.wait_until_no_reconcile_is_scheduled().await;
    assert_eq!(env.specs().await, before);
}
