//! The only request that writes to the cluster.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use firebolt_api::FireboltEngine;
use firebolt_api::key::Annotation;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// Writes the time into the wake annotation of an engine, and nothing else.
pub(super) async fn request_wake(client: Client, namespace: &str, engine: &str, at: Timestamp) -> kube::Result<()> {
    let annotations = json!({ Annotation::WakeRequested.key(): at.to_string() });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let engines: Api<FireboltEngine> = Api::namespaced(client, namespace);
    // The response is not used, so the smallest one is requested.
    let stored = engines.patch_metadata(engine, &PatchParams::default(), &patch).await;
    stored.map(drop)
}
