//! Storage for the data of an engine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::quantity::Quantity;
use crate::rule;

/// Storage for the data of an engine. The data is a cache that every generation fills anew. At most one backend can be
/// set; without one, pods use an emptyDir volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::one_storage_backend())]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// A PersistentVolumeClaim for each pod. Claims are deleted together with their generation. `{}` uses the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimStorage>,

    /// An emptyDir volume, which is deleted together with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDirStorage>,

    /// A directory on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPathStorage>,
}

/// A PersistentVolumeClaim for each pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaimStorage {
    /// Size of each volume.
    #[serde(default = "default_claim_size")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Quantity,

    /// Access modes of each volume. An empty list means `ReadWriteOnce`.
    #[serde(default = "default_access_modes")]
    pub access_modes: Vec<AccessMode>,

    /// Name of the StorageClass that provides the volumes. Defaults to the default StorageClass of the cluster. If set
    /// to the empty string, only existing volumes are used.
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

/// Access mode of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum AccessMode {
    ReadWriteOnce,
    ReadOnlyMany,
    ReadWriteMany,
    ReadWriteOncePod,
}

/// An emptyDir volume, which is deleted together with the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirStorage {
    /// Medium that stores the data. Defaults to the disk of the node. `Memory` counts against the memory limit of the
    /// pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<StorageMedium>,

    /// Size of the data at which the pod is evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size_limit: Option<Quantity>,
}

/// Medium that stores the data of an emptyDir volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum StorageMedium {
    #[serde(rename = "")]
    Default,
    Memory,
}

/// A directory on the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPathStorage {
    /// Absolute path of the directory.
    #[schemars(regex(pattern = r"^/.*"))]
    pub path: String,

    /// Type that the path must have, as in a core/v1 HostPathVolumeSource. By default the type is not checked.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<HostPathType>,
}

/// Type that the path of a hostPath volume must have.
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
