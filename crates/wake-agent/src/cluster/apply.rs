//! The one request that changes something in the cluster.

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
pub async fn stamp(client: Client, namespace: &str, engine: &str, at: Timestamp) -> kube::Result<()> {
    let annotations = json!({ Annotation::WakeRequested.key(): at.to_string() });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let engines: Api<FireboltEngine> = Api::namespaced(client, namespace);
    // Of the answer nothing is needed, so the least is asked for.
    let stored = engines.patch_metadata(engine, &PatchParams::default(), &patch).await;
    stored.map(drop)
}
