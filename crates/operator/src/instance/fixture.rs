//! Instances for unit tests.

use firebolt_api::FireboltInstance;
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::instance::{EffectiveInstance, resolve};
use serde_json::{Value, json};

/// An instance with this specification of its metadata service and its gateway.
pub fn instance(metadata: &Value, gateway: &Value) -> FireboltInstance {
    let own = json!({ "name": "main", "namespace": "n", "uid": "uid", "generation": 1 });
    let spec = json!({ "id": "01J", "metadata": metadata, "gateway": gateway });
    let instance = json!({ "apiVersion": "v", "kind": "FireboltInstance", "metadata": own, "spec": spec });
    serde_json::from_value(instance).unwrap()
}

/// What the operator brings.
pub fn defaults() -> Defaults {
    crate::engine::fixture::defaults()
}

/// An instance that runs its own PostgreSQL, resolved.
pub fn effective() -> EffectiveInstance {
    resolve(&instance(&json!({}), &json!({})), &defaults(), false)
}

/// One that uses an external PostgreSQL.
pub fn external() -> EffectiveInstance {
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } });
    resolve(
        &instance(&json!({ "postgres": postgres }), &json!({})),
        &defaults(),
        false,
    )
}
