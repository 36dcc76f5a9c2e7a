//! Cleanup after a test, with the client of the test.

use std::fmt::Debug;
use std::thread;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::runtime::Handle;

/// Does what is left to do when a value is dropped, in a test whose runtime has several threads.
///
/// On a thread of its own: one that waits for two futures at once takes the wake-ups of the one for those of the other.
pub(crate) fn finish(work: impl Future<Output = ()> + Send) {
    let runtime = Handle::current();
    thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(work));
    });
}

/// Has the namespace go with everything in it, without waiting. Best effort.
pub(crate) async fn remove_namespace(client: &Client, name: &str) {
    release::<FireboltEngine>(client, name).await;
    release::<FireboltInstance>(client, name).await;
    release::<FireboltEngineClass>(client, name).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _best_effort = namespaces.delete(name, &DeleteParams::default()).await;
}

/// Removes the finalizers of every object of the kind, because their controllers are gone.
async fn release<K>(client: &Client, namespace: &str)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::namespaced(client.clone(), namespace);
    let listed = objects.list_metadata(&ListParams::default()).await;
    for object in listed.into_iter().flatten() {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let _best_effort = objects
            .patch_metadata(&object.name_any(), &PatchParams::default(), &patch)
            .await;
    }
}
