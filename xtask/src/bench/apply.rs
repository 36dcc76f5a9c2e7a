//! What users, gateways and kubelets write.

#![expect(
    clippy::disallowed_methods,
    reason = "the benchmark plays everybody but the operator"
)]

use std::net::IpAddr;

use firebolt_api::FireboltEngine;
use firebolt_api::key::Annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Result;

/// Creates an engine.
pub(super) async fn create(engines: &Api<FireboltEngine>, engine: &Value) -> Result<()> {
    let engine: FireboltEngine = serde_json::from_value(engine.clone())?;
    engines.create(&PostParams::default(), &engine).await?;
    Ok(())
}

/// Asks for an engine, as a gateway does.
pub(super) async fn wake(engines: &Api<FireboltEngine>, name: &str) -> Result<()> {
    let requested = Timestamp::now().to_string();
    let patch = json!({ "metadata": { "annotations": { Annotation::WakeRequested.key(): requested } } });
    edit(engines, name, &patch).await
}

/// Stops an engine for good, as a person does: the request to wake it is taken back.
pub(super) async fn stop(engines: &Api<FireboltEngine>, name: &str) -> Result<()> {
    let patch = json!({
        "metadata": { "annotations": { Annotation::WakeRequested.key(): null } }, "spec": { "replicas": 0 },
    });
    edit(engines, name, &patch).await
}

async fn edit(engines: &Api<FireboltEngine>, name: &str, patch: &Value) -> Result<()> {
    let edited = engines.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    edited.map_err(|error| format!("edit FireboltEngine {name}: {error}"))?;
    Ok(())
}

/// Says of a pod that it runs at this address and is ready, as its kubelet would.
pub(super) async fn run_at(pods: &Api<Pod>, name: &str, address: IpAddr) -> Result<()> {
    let started = Timestamp::now().to_string();
    let status = json!({ "status": {
        "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": started }],
        "containerStatuses": [{
            "name": "engine", "image": "engine", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": { "startedAt": started } },
        }],
    } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
        .await?;
    Ok(())
}
