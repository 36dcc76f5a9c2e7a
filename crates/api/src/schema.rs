//! Schemas that are not derived from Rust types of this crate: embedded Kubernetes types and free-form objects.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::quantity;

/// Structural schema of a pod template, generated from the Kubernetes release that tests run (see `make generate`).
/// Field descriptions are omitted to keep each CRD within the size that client-side `kubectl apply` can store.
const POD_TEMPLATE: &str = include_str!("../schema/pod-template.json");

pub(crate) fn pod_template(_: &mut SchemaGenerator) -> Schema {
    let schema: Value = serde_json::from_str(POD_TEMPLATE).expect("the generated schema is JSON");
    schema.try_into().expect("the generated schema is an object")
}

/// See [`quantity::schema`].
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    quantity::schema().try_into().expect("the schema is an object")
}

/// Schema of the type itself, for a field that is an `Option` of it: the derived schema of an optional enum with
/// documented variants would lose the description of the field.
pub(crate) fn plain<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// A point in time, in RFC 3339.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Any object, preserved unchanged.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Conditions, at most one per type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

fn condition() -> Value {
    json!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {
                "description": "Type of the condition.",
                "type": "string",
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            },
            "status": { "description": "Status of the condition.", "type": "string", "enum": ["True", "False", "Unknown"] },
            "reason": {
                "description": "Machine-readable reason for the last transition of the condition, in CamelCase.",
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": { "description": "Human-readable explanation of the condition and of its remedy.", "type": "string", "maxLength": 32768 },
            "lastTransitionTime": { "description": "Time at which the status of the condition last changed.", "type": "string", "format": "date-time" },
            "observedGeneration": {
                "description": "The metadata.generation that the condition was computed for.",
                "type": "integer", "format": "int64", "minimum": 0,
            },
        },
    })
}
