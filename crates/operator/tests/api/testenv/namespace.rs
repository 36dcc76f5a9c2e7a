//! The namespaces of tests.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::support::cleanup::remove_namespace;

/// What tells them from others.
const NAMESPACE_LABEL: &str = "tests.firebolt.io/test";

/// A namespace in which every pod has to pass the `restricted` standard.
pub(crate) async fn create(client: &Client) -> String {
    let labels = json!({ NAMESPACE_LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted" });
    // The API server generates the name: a long-lived cluster has many test runs.
    let namespace = json!({ "metadata": { "generateName": "test-", "labels": labels } });
    let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    created.expect("create a namespace").name_any()
}

/// Removes what a killed process left: its pods would go on to run on our node.
pub(crate) async fn clear_earlier(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let earlier = namespaces.list(&ListParams::default().labels(NAMESPACE_LABEL)).await;
    for namespace in earlier.expect("list namespaces") {
        remove_namespace(client, &namespace.name_any()).await;
    }
}
