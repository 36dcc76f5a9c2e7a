//! The default storage class: each claim gets a folder of this machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use firebolt_process::error::chain;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchParams};
use kube::{Api, Client, ResourceExt as _};

use crate::state::folder;
use crate::{Error, Result, identity};

/// The name of the class, which people know from other small clusters.
pub(crate) const CLASS: &str = "standard";
const PROVISIONER: &str = "localkube/folder";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotation that names the provisioner of a volume, which also has to delete it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// How long to wait after a failure, and at most for an event.
const PAUSE: Duration = Duration::from_secs(1);
const WATCH_SECONDS: u32 = 60;

/// Serves until it is ended.
pub(crate) fn run(kubeconfig: &Path, volumes: &Path) -> Result<()> {
    fs::create_dir_all(volumes).map_err(Error::io("create", volumes))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::io("start", "a runtime"))?;
    runtime.block_on(async {
        let client = identity::client(kubeconfig).await?;
        loop {
            // The API server may be away for a while, and come back.
            if let Err(error) = serve(&client, volumes).await {
                eprintln!("{}", chain(&error));
                tokio::time::sleep(PAUSE).await;
            }
        }
    })
}

/// Reconciles all claims and volumes whenever one of them changes, until a watch ends.
async fn serve(client: &Client, volumes: &Path) -> Result<()> {
    create_class(client).await?;
    let watch = WatchParams::default().timeout(WATCH_SECONDS);
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let made: Api<PersistentVolume> = Api::all(client.clone());
    let claims = claims.watch(&watch, "0").await.map_err(Error::api("watch claims"))?;
    let made = made.watch(&watch, "0").await.map_err(Error::api("watch volumes"))?;
    let claims = claims.map(|event| event.map(drop));
    let mut events =
        std::pin::pin!(futures::stream::select(claims, made.map(|event| event.map(drop))).ready_chunks(64));
    while let Some(events) = events.next().await {
        for event in events {
            event.map_err(Error::api("watch claims and volumes"))?;
        }
        provide(client, volumes).await?;
        reclaim(client, volumes).await?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the wall is about the operator; this is part of a cluster"
)]
async fn create_class(client: &Client) -> Result<()> {
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some(CLASS.to_owned()),
            annotations: Some([(DEFAULT_CLASS.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        ..StorageClass::default()
    };
    let created = Api::all(client.clone()).create(&PostParams::default(), &class).await;
    unless_there(created, "create the storage class")
}

/// Makes a volume for each claim that has none.
#[expect(
    clippy::disallowed_methods,
    reason = "the wall is about the operator; this is part of a cluster"
)]
async fn provide(client: &Client, volumes: &Path) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let claims = claims
        .list(&ListParams::default())
        .await
        .map_err(Error::api("list claims"))?;
    for claim in claims {
        let spec = claim.spec.clone().unwrap_or_default();
        let is_pending = spec.storage_class_name.as_deref() == Some(CLASS) && spec.volume_name.is_none();
        if !is_pending || claim.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let volume = volume_for(&claim, volumes)?;
        let created = Api::all(client.clone()).create(&PostParams::default(), &volume).await;
        unless_there(created, "create a volume")?;
    }
    Ok(())
}

/// The volume for a claim, whose folder is made.
fn volume_for(claim: &PersistentVolumeClaim, volumes: &Path) -> Result<PersistentVolume> {
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let folder = volumes.join(&name);
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    // Kubernetes does not apply `fsGroup` to host paths, so everyone may write.
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).map_err(Error::io("open up", &folder))?;
    let spec = claim.spec.clone().unwrap_or_default();
    Ok(PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name),
            annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|resources| resources.requests),
            claim_ref: Some(ObjectReference {
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.namespace(),
                name: claim.metadata.name.clone(),
                uid: claim.uid(),
                ..ObjectReference::default()
            }),
            host_path: Some(HostPathVolumeSource {
                path: folder.display().to_string(),
                type_: Some("Directory".to_owned()),
            }),
            persistent_volume_reclaim_policy: Some("Delete".to_owned()),
            storage_class_name: Some(CLASS.to_owned()),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    })
}

/// Removes the volumes whose claims are gone.
#[expect(
    clippy::disallowed_methods,
    reason = "the wall is about the operator; this is part of a cluster"
)]
async fn reclaim(client: &Client, volumes: &Path) -> Result<()> {
    let made: Api<PersistentVolume> = Api::all(client.clone());
    for volume in made
        .list(&ListParams::default())
        .await
        .map_err(Error::api("list volumes"))?
    {
        let ours = volume
            .annotations()
            .get(PROVISIONED_BY)
            .is_some_and(|by| by == PROVISIONER);
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if !ours || phase != Some("Released") || volume.metadata.deletion_timestamp.is_some() {
            continue;
        }
        // By its name, not by the path in its spec, which anyone could have written.
        folder::remove(&volumes.join(volume.name_any()))?;
        made.delete(&volume.name_any(), &DeleteParams::default())
            .await
            .map_err(Error::api(format!("delete volume {}", volume.name_any())))?;
    }
    Ok(())
}

fn unless_there<T>(created: kube::Result<T>, action: &str) -> Result<()> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop).map_err(Error::api(action.to_owned())),
    }
}
