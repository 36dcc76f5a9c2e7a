//! The objects of an instance.

use firebolt_api::FireboltInstance;
use firebolt_core::render::instance::{
    gateway_config_map, gateway_deployment, gateway_disruption_budget, gateway_role, gateway_role_binding,
    gateway_service, gateway_service_account, metadata_config_map, metadata_deployment, metadata_service,
    postgres_credentials, postgres_service, postgres_stateful_set,
};
use firebolt_core::resolve::instance::{EffectiveInstance, Postgres, resolve};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodTemplateSpec, ServiceAccount};
use kube::Client;
use localkube::Cluster;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::cluster::{RESTRICTED, namespace, namespace_with};

use crate::support::{UID, admit, apply, defaulted_fields, defaults, stored_differences};

const HASH: &str = "0123456789abcdef";

fn effective(namespace: &str, spec: &Value, ipv6: bool) -> EffectiveInstance {
    let mut full = json!({ "id": "01J", "metadata": {}, "gateway": {} });
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    let metadata = json!({ "name": "main", "namespace": namespace, "uid": UID });
    let object = json!({ "apiVersion": "v", "kind": "FireboltInstance", "metadata": metadata, "spec": full });
    let instance: FireboltInstance = serde_json::from_value(object).expect("an instance");
    resolve(&instance, &defaults(), ipv6)
}

/// Everything that the API server stores otherwise than we render it, of all objects.
async fn all_differences(client: &Client, instance: &EffectiveInstance) -> Vec<String> {
    let mut found = Vec::new();
    if matches!(instance.postgres, Postgres::Internal { .. }) {
        found.extend(stored_differences(client, &postgres_credentials(instance, "secret")).await);
        found.extend(stored_differences(client, &postgres_stateful_set(instance)).await);
        found.extend(stored_differences(client, &postgres_service(instance)).await);
    }
    found.extend(stored_differences(client, &metadata_config_map(instance)).await);
    found.extend(stored_differences(client, &metadata_deployment(instance, HASH)).await);
    found.extend(stored_differences(client, &metadata_service(instance)).await);
    if instance.gateway.service_account.is_some() {
        found.extend(stored_differences(client, &gateway_service_account(instance)).await);
        found.extend(stored_differences(client, &gateway_role(instance)).await);
        found.extend(stored_differences(client, &gateway_role_binding(instance)).await);
    }
    found.extend(stored_differences(client, &gateway_config_map(instance)).await);
    found.extend(stored_differences(client, &gateway_deployment(instance)).await);
    found.extend(stored_differences(client, &gateway_service(instance)).await);
    found.extend(stored_differences(client, &gateway_disruption_budget(instance)).await);
    found
}

fn external() -> Value {
    json!({ "postgres": { "host": "db", "database": "d", "credentialsSecretRef": { "name": "own-database" } } })
}

fn accounts() -> Value {
    let template = json!({ "template": { "spec": { "serviceAccountName": "own" } } });
    json!({ "metadata": template, "gateway": template })
}

#[rstest]
#[case::bare(json!({}), false)]
#[case::external(json!({ "metadata": external() }), false)]
#[case::yaml_ipv6(json!({ "metadata": { "configFormat": "yaml" }, "gateway": { "replicas": 0, "metricsPort": 9100, "wakeTimeout": "1500ms" } }), true)]
#[case::accounts(accounts(), false)]
#[case::defaults(json!({
    "metadata": { "template": defaulted_fields("metadata", json!({})) },
    "gateway": { "template": defaulted_fields("envoy", json!({})) },
}), false)]
#[tokio::test]
async fn defaults_of_the_api_server_are_not_drift(#[case] spec: Value, #[case] ipv6: bool) {
    let client = Cluster::attach().client().await.expect("connect as admin");
    let instance = effective(&namespace(&client, "render").await, &spec, ipv6);
    // Twice: what is applied over itself is still the same.
    for _ in 0..2 {
        assert_eq!(all_differences(&client, &instance).await, Vec::<String>::new());
    }
}

/// Of one instance after another in the same place, nothing of the former stays.
#[tokio::test]
async fn removed_settings_are_no_longer_rendered() {
    let client = Cluster::attach().client().await.expect("connect as admin");
    let namespace = namespace(&client, "render").await;
    let explicit = json!({
        "metadata": { "template": defaulted_fields("metadata", json!({})) },
        "gateway": { "template": defaulted_fields("envoy", json!({})) },
    });
    for spec in [explicit, accounts()] {
        let pods = |deployment: Deployment| deployment.spec.expect("a spec").template;
        let bare = effective(&namespace, &json!({}), false);
        let fresh = [
            pods(apply(&client, &renamed(metadata_deployment(&bare, HASH))).await),
            pods(apply(&client, &renamed(gateway_deployment(&bare))).await),
        ];
        let former = effective(&namespace, &spec, false);
        apply(&client, &metadata_deployment(&former, HASH)).await;
        apply(&client, &gateway_deployment(&former)).await;
        let latter = [
            pods(apply(&client, &metadata_deployment(&bare, HASH)).await),
            pods(apply(&client, &gateway_deployment(&bare)).await),
        ];
        assert_eq!(latter, fresh);
    }
}

/// The same under a name that nothing was stored under before.
fn renamed(mut deployment: Deployment) -> Deployment {
    let name = deployment.metadata.name.as_deref().expect("a name");
    deployment.metadata.name = Some(format!("{name}-fresh"));
    deployment
}

/// The pods of every component are admitted where only hardened pods are.
#[tokio::test]
async fn pods_pass_the_standard_restricted() {
    let cluster = Cluster::attach();
    let client = cluster.client().await.expect("connect as admin");
    let namespace = namespace_with(&client, "render", &[RESTRICTED]).await;
    let instance = effective(&namespace, &json!({}), false);
    apply(&client, &account(&instance)).await;
    for template in pods(&instance) {
        admit(&cluster, &namespace, &template).expect("admit the pod");
    }
}

/// The standard is enforced there: with a volume of the node, the same pods are refused.
#[tokio::test]
async fn pods_with_weaker_settings_of_a_user_do_not_pass_the_standard_restricted() {
    let cluster = Cluster::attach();
    let client = cluster.client().await.expect("connect as admin");
    let namespace = namespace_with(&client, "render", &[RESTRICTED]).await;
    let template = json!({ "template": { "spec": { "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] } } });
    let instance = effective(&namespace, &json!({ "metadata": template, "gateway": template }), false);
    apply(&client, &account(&instance)).await;
    let [postgres, weakened @ ..] = pods(&instance);
    admit(&cluster, &namespace, &postgres).expect("admit the pod");
    for template in weakened {
        let error = admit(&cluster, &namespace, &template).expect_err("refuse the pod");
        assert!(
            firebolt_process::error::chain(&error).contains("restricted volume types"),
            "{error}"
        );
    }
}

/// The account of the gateway, without which no pod is admitted. It has no owner reference: the owner does not exist, and
/// where the definitions are installed, Kubernetes would delete it.
fn account(instance: &EffectiveInstance) -> ServiceAccount {
    let mut account = gateway_service_account(instance);
    account.metadata.owner_references = None;
    account
}

fn pods(instance: &EffectiveInstance) -> [PodTemplateSpec; 3] {
    let deployed = |deployment: Deployment| deployment.spec.expect("a spec").template;
    [
        postgres_stateful_set(instance).spec.expect("a spec").template,
        deployed(metadata_deployment(instance, HASH)),
        deployed(gateway_deployment(instance)),
    ]
}
