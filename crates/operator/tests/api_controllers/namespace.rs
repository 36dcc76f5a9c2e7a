//! The namespaces of the stories: one each, gone with the story.

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::scene::Namespaced;

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
pub async fn clear_earlier(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let earlier = namespaces.list(&ListParams::default().labels(NAMESPACE_LABEL)).await;
    for namespace in earlier.expect("list namespaces") {
        remove(client, &namespace.name_any()).await;
    }
}

/// Has the namespace go, without waiting for it. Best effort: whatever stays is removed by the next process.
pub async fn remove(client: &Client, name: &str) {
    release::<FireboltEngine>(client, name).await;
    release::<FireboltInstance>(client, name).await;
    release::<FireboltEngineClass>(client, name).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _best_effort = namespaces.delete(name, &DeleteParams::default()).await;
}

/// Takes the finalizers off every object of the kind: nobody is left who would.
async fn release<K: Namespaced>(client: &Client, namespace: &str) {
    let objects: Api<K> = Api::namespaced(client.clone(), namespace);
    let held = objects.list_metadata(&ListParams::default()).await;
    for object in held
        .into_iter()
        .flatten()
        .filter(|object| !object.finalizers().is_empty())
    {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let _best_effort = objects
            .patch_metadata(&object.name_any(), &PatchParams::default(), &patch)
            .await;
    }
}
