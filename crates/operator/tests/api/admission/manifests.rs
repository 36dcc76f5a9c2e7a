//! The manifests of the tests, as users write them.

use serde_json::{Value, json};

/// The instance that engines belong to.
pub(super) const INSTANCE: &str = "main";
/// The engine of tests that have one.
pub(super) const ENGINE: &str = "sales";
/// The class of tests that have one.
pub(super) const CLASS: &str = "large";

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}

/// An engine of one replica that knows its metadata service by itself.
pub(super) fn engine(name: &str) -> Value {
    let spec = json!({
        "instanceRef": INSTANCE, "replicas": 1, "metadataEndpointOverride": "metadata.example:7000",
    });
    object("FireboltEngine", name, &spec)
}

/// An engine of this class.
pub(super) fn engine_of(name: &str, class: &str) -> Value {
    let mut engine = engine(name);
    engine["spec"]["engineClassRef"] = json!(class);
    engine
}

/// An engine with this template.
pub(super) fn engine_with(name: &str, template: &Value) -> Value {
    let mut engine = engine(name);
    engine["spec"]["template"] = template.clone();
    engine
}

/// A class that decides nothing.
pub(super) fn class(name: &str) -> Value {
    class_with(name, &json!({}))
}

/// A class with this template.
pub(super) fn class_with(name: &str, template: &Value) -> Value {
    object("FireboltEngineClass", name, &json!({ "template": template }))
}

/// An instance that nothing is made for, because the credentials of its database never come.
pub(super) fn instance(name: &str) -> Value {
    let postgres = json!({
        "host": "database.example", "database": "metadata", "credentialsSecretRef": { "name": "never-there" },
    });
    object(
        "FireboltInstance",
        name,
        &json!({ "metadata": { "postgres": postgres }, "gateway": {} }),
    )
}

/// An instance with this template of one of its components.
pub(super) fn instance_with(name: &str, component: &str, template: &Value) -> Value {
    let mut instance = instance(name);
    instance["spec"][component]["template"] = template.clone();
    instance
}

/// A template in which a container has this field.
pub(super) fn container(name: &str, field: &str, value: &Value) -> Value {
    json!({ "spec": { "containers": [{ "name": name, field: value }] } })
}

/// A template whose engine container has this CPU limit.
pub(super) fn cpu(limit: &str) -> Value {
    container("engine", "resources", &json!({ "limits": { "cpu": limit } }))
}

/// A template that admission refuses, at [`COMMAND`].
pub(super) fn commanded() -> Value {
    container("engine", "command", &json!(["sh"]))
}

/// Where an engine or a class with the template [`commanded`] is wrong.
pub(super) const COMMAND: &str = "spec.template.spec.containers[engine].command";

/// The edit that gives an object this template.
pub(super) fn new_template(template: &Value) -> Value {
    json!({ "spec": { "template": template } })
}

/// The edit that gives an engine another size.
pub(super) fn new_replicas(replicas: i32) -> Value {
    json!({ "spec": { "replicas": replicas } })
}

/// The edit with which a gateway asks for an engine to wake.
pub(super) fn wake() -> Value {
    let key = firebolt_api::key::Annotation::WakeRequested.key();
    json!({ "metadata": { "annotations": { key: "2026-01-01T00:00:00Z" } } })
}
