//! The inputs hash of a component: a hash of what users and the cluster determine about its pods.
//!
//! How the operator renders them is not part of it, so that a new version of the operator restarts no pods. The number of
//! replicas is not part of it either: it restarts none.

use firebolt_api::key::Component;
use serde_json::{Value, json};

use crate::canonical;
use crate::resolve::instance::{EffectiveInstance, Postgres};

/// Version of the hashed fields and of the algorithm. Raise it when one of them changes: hashes of different versions
/// cannot be compared.
const VERSION: &str = "1";

/// The inputs hash of a component. The credentials matter to the metadata service alone.
#[must_use]
pub(crate) fn inputs_hash(
    instance: &EffectiveInstance,
    component: Component,
    credentials_hash: Option<&str>,
) -> String {
    let inputs = match component {
        // Users can set nothing about it.
        Component::Postgres => Value::Null,
        Component::Metadata => json!({
            "template": canonical::to_json(&instance.metadata.user_template),
            "configFormat": instance.metadata.config_format,
            "id": instance.id,
            "postgres": postgres(instance),
            "credentials": credentials_hash,
        }),
        Component::Gateway => json!({
            "template": canonical::to_json(&instance.gateway.user_template),
            "clusterDomain": instance.cluster_domain,
            "metricsPort": instance.gateway.metrics_port,
            "ipv6": instance.gateway.ipv6,
            "wakeTimeout": instance.gateway.hold_timeout,
        }),
    };
    format!("{VERSION}-{}", canonical::hash(&inputs))
}

/// Whether a recorded inputs hash can be compared with those of this version of the operator.
#[must_use]
pub(crate) fn is_comparable(inputs_hash: &str) -> bool {
    inputs_hash
        .split_once('-')
        .is_some_and(|(version, _)| version == VERSION)
}

fn postgres(instance: &EffectiveInstance) -> Value {
    match &instance.postgres {
        // Its address.
        Postgres::Internal { .. } => json!({ "clusterDomain": instance.cluster_domain }),
        Postgres::External(external) => json!({ "external": external }),
    }
}
