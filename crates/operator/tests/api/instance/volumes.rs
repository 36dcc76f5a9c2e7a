//! Volumes for claims, as a provisioner creates them: without one, no pod of a database is ever scheduled.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::AbortHandle;

use crate::support::unique;
use crate::testenv::TestEnv;

/// A provisioner for the claims of one namespace. It ends when it is dropped.
pub(crate) struct Volumes(AbortHandle);

impl Volumes {
    /// Starts one.
    pub(crate) async fn provide(base: &TestEnv) -> Self {
        let namespaces: Api<Namespace> = Api::all(base.client.clone());
        let namespace = namespaces.get(&base.namespace).await.unwrap();
        let (claims, volumes) = (base.api(), Api::all(base.client.clone()));
        Self(tokio::spawn(provide(namespace, claims, volumes)).abort_handle())
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn provide(namespace: Namespace, claims: Api<PersistentVolumeClaim>, volumes: Api<PersistentVolume>) {
    let mut claims = pin!(
        watcher(claims, watcher::Config::default())
            .default_backoff()
            .applied_objects()
    );
    let mut provided = Vec::new();
    while let Some(claim) = claims.next().await {
        let Ok(claim) = claim else { continue };
        let (bound, uid) = (
            claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()),
            claim.uid(),
        );
        if bound.is_none() && !provided.contains(&uid) {
            let created = volumes
                .create(&PostParams::default(), &volume(&namespace, &claim))
                .await;
            created.unwrap();
            provided.push(uid);
        }
    }
}

/// A volume for this claim alone. It goes with the namespace.
fn volume(namespace: &Namespace, claim: &PersistentVolumeClaim) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.unwrap_or_default().requests;
    let owner = json!({
        "apiVersion": "v1", "kind": "Namespace", "name": namespace.name_any(), "uid": namespace.uid(),
    });
    let volume = json!({
        "metadata": { "name": unique("volume"), "ownerReferences": [owner] },
        "spec": {
            "capacity": requests, "accessModes": spec.access_modes, "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/nowhere" },
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace.name_any(),
                "name": claim.name_any(), "uid": claim.uid(),
            },
        },
    });
    serde_json::from_value(volume).expect("a volume")
}
