//! Where the pods of an engine keep their data.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::quantity::Quantity;
use crate::rule;

/// Where the pods of an engine keep their data, a cache that every generation fills anew. Name at most one backend;
/// without one, pods use an emptyDir volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::one_storage_backend())]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// A volume claim of its own for each pod. Claims are deleted with their generation. `{}` takes every default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimStorage>,

    /// A volume that lives and dies with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDirStorage>,

    /// A folder of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPathStorage>,
}

/// A volume claim for each pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaimStorage {
    /// How large each volume is.
    #[serde(default = "default_claim_size")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Quantity,

    /// How each volume may be mounted.
    #[serde(default = "default_access_modes")]
    pub access_modes: Vec<AccessMode>,

    /// Which StorageClass provides the volumes. Left out: the default of the cluster. The empty string: none, only
    /// volumes that exist already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

fn default_claim_size() -> Quantity {
    Quantity("1Gi".to_owned())
}

fn default_access_modes() -> Vec<AccessMode> {
    vec![AccessMode::ReadWriteOnce]
}

impl Default for PersistentVolumeClaimStorage {
    fn default() -> Self {
        Self {
            size: default_claim_size(),
            access_modes: default_access_modes(),
            storage_class_name: None,
        }
    }
}

/// How a volume may be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum AccessMode {
    ReadWriteOnce,
    ReadOnlyMany,
    ReadWriteMany,
    ReadWriteOncePod,
}

/// A volume that lives and dies with the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirStorage {
    /// What holds the data: the node's disk (left out or empty) or its `Memory`, which counts against the memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<StorageMedium>,

    /// How much the volume may hold before the pod is evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size_limit: Option<Quantity>,
}

/// What holds the data of an emptyDir volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum StorageMedium {
    #[serde(rename = "")]
    Default,
    Memory,
}

/// A folder of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPathStorage {
    /// The absolute path of the folder.
    #[schemars(regex(pattern = r"^/.*"))]
    pub path: String,

    /// What must be at the path, as in core/v1 HostPathVolumeSource. Left out: no check.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<HostPathType>,
}

/// What must be at the path of a hostPath volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum HostPathType {
    #[serde(rename = "")]
    #[strum(serialize = "")]
    Unset,
    DirectoryOrCreate,
    Directory,
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}
