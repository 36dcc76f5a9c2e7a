//! Instances for unit tests of the comparison.

use firebolt_api::FireboltInstance;
use serde_json::{Value, json};

use crate::resolve::Defaults;
use crate::resolve::instance::{EffectiveInstance, resolve};

/// An instance with this specification of its metadata service and its gateway.
pub(super) fn instance(metadata: &Value, gateway: &Value) -> FireboltInstance {
    let own = json!({ "name": "main", "namespace": "n", "uid": "uid", "generation": 1 });
    let spec = json!({ "id": "01J", "metadata": metadata, "gateway": gateway });
    let instance = json!({ "apiVersion": "v", "kind": "FireboltInstance", "metadata": own, "spec": spec });
    serde_json::from_value(instance).unwrap()
}

/// An instance that runs its own PostgreSQL, resolved.
pub(super) fn effective() -> EffectiveInstance {
    resolve(&instance(&json!({}), &json!({})), &Defaults::example(), false)
}

/// One that uses an external PostgreSQL.
pub(super) fn external() -> EffectiveInstance {
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } });
    resolve(
        &instance(&json!({ "postgres": postgres }), &json!({})),
        &Defaults::example(),
        false,
    )
}
