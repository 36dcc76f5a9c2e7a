//! Manifests of instances.

use firebolt_api::FireboltInstance;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::fixtures::{Engine, engine};

/// The instance of every test that has one.
pub(super) const MAIN: &str = "main";

/// The least that can be asked for.
pub(super) fn minimal(name: &str) -> FireboltInstance {
    instance(name, &json!({}), &json!({}))
}

/// An instance with these components.
pub(super) fn instance(name: &str, metadata: &Value, gateway: &Value) -> FireboltInstance {
    let spec = json!({ "metadata": metadata, "gateway": gateway });
    let instance = json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltInstance",
        "metadata": { "name": name }, "spec": spec,
    });
    serde_json::from_value(instance).expect("an instance")
}

/// The Secret of [`external`].
pub(super) const CREDENTIALS: &str = "database-login";

/// The database of another owner, for `spec.metadata.postgres`.
pub(super) fn external() -> Value {
    json!({
        "host": "database.example", "database": "metadata", "credentialsSecretRef": { "name": CREDENTIALS },
    })
}

/// A Secret with these texts.
pub(super) fn secret(name: &str, data: &Value) -> Secret {
    let secret = json!({ "metadata": { "name": name }, "type": "Opaque", "stringData": data });
    serde_json::from_value(secret).expect("a Secret")
}

/// The Secret that [`external`] names.
pub(super) fn credentials(password: &str) -> Secret {
    secret(CREDENTIALS, &json!({ "username": "app-user", "password": password }))
}

/// An engine that learns from its instance where the metadata service is.
pub(super) fn engine_of(instance: &str, name: &str) -> Engine {
    let mut engine = engine(name);
    instance.clone_into(&mut engine.0.spec.instance_ref);
    engine.0.spec.metadata_endpoint_override = None;
    engine
}
