//! The namespaces of the stories: one each, gone with the story.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use localkube::Cluster;
use serde_json::json;

/// What tells them from others.
const NAMESPACE_LABEL: &str = "tests.firebolt.io/story";

/// A namespace in which every pod has to pass the `restricted` standard.
pub async fn create(client: &Client) -> String {
    let labels = json!({ NAMESPACE_LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted" });
    // The API server completes the name: a cluster that goes on for days sees many runs.
    let namespace = json!({ "metadata": { "generateName": "story-", "labels": labels } });
    let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    created.expect("create a namespace").name_any()
}

/// Removes what a killed process left: its pods would go on to run on our node.
pub fn clear_earlier(cluster: &Cluster) {
    let named = cluster
        .kubectl(&["get", "namespaces", "-l", NAMESPACE_LABEL, "-o", "name"])
        .unwrap();
    for name in named.lines().filter_map(|line| line.strip_prefix("namespace/")) {
        remove(cluster, name);
    }
}

/// Has the namespace go, without waiting for it. Best effort: whatever stays is removed by the next process.
pub fn remove(cluster: &Cluster, name: &str) {
    let kinds = "fireboltengines,fireboltinstances,fireboltengineclasses";
    let held = ["get", kinds, "-n", name, "-o", "name"];
    for object in cluster.kubectl(&held).unwrap_or_default().lines() {
        // Nobody is left who would take it off.
        let release = [
            "patch",
            object,
            "-n",
            name,
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ];
        let _best_effort = cluster.kubectl(&release);
    }
    let _best_effort = cluster.kubectl(&["delete", "namespace", name, "--wait=false"]);
}
