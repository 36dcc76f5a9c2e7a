//! The template hash of a generation: a hash of what users and the instance determine about it.
//!
//! How the operator renders it is not part of it, so that a new version of the operator starts no generation.

use serde_json::{Value, json};

use crate::canonical;
use crate::resolve::engine::{Backend, EffectiveEngine};

/// Version of the hashed fields and of the algorithm. Raise it when one of them changes: hashes of different versions
/// cannot be compared.
const VERSION: &str = "2";

/// The template hash of the desired state: the pod template of class and engine, the storage, the configuration, the web UI
/// and the instance. The number of replicas is compared by itself.
#[must_use]
pub fn template_hash(engine: &EffectiveEngine) -> String {
    let inputs = json!({
        "template": canonical::to_json(&engine.sources.template),
        "storage": storage(&engine.storage),
        "config": engine.sources.custom_config,
        "uiSidecar": engine.ui_image.is_some(),
        "instance": { "id": engine.instance.id, "metadataEndpoint": engine.instance.metadata_endpoint },
    });
    format!("{VERSION}-{}", canonical::hash(&inputs))
}

/// Whether a recorded template hash can be compared with those of this version of the operator.
#[must_use]
pub(crate) fn is_comparable(template_hash: &str) -> bool {
    template_hash
        .split_once('-')
        .is_some_and(|(version, _)| version == VERSION)
}

fn storage(storage: &Backend) -> Value {
    match storage {
        Backend::PersistentVolumeClaim(claim) => json!({ "persistentVolumeClaim": claim }),
        Backend::EmptyDir(directory) => json!({ "emptyDir": directory }),
        Backend::HostPath(directory) => json!({ "hostPath": directory }),
    }
}
