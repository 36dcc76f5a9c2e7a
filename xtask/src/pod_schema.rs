//! The structural schema of a pod template, from the OpenAPI document that Kubernetes publishes.
//!
//! A CRD cannot refer to the schemas of core types, so the pod template is copied into ours, resolved and reduced:
//! - references are replaced by what they name;
//! - descriptions go, since four copies of them would exceed what client-side `kubectl apply` can store;
//! - `containers` is no longer required: a template is a set of overrides, and most name no container;
//! - defaults that only mirror Go's zero values go: they would satisfy `required` with an empty text;
//! - lists of allowed values go: a newer cluster may allow more, and core types take an empty text for "unset";
//! - quantities and int-or-string fields take the form that CRDs have for them, with the bounds of what our types read;
//! - `creationTimestamp: null`, which Go programs write into every template, is allowed.

use serde_json::{Map, Value, json};

const POD_TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// Keywords that carry over into a CRD. Anything else that appears is an error, so that a new release of Kubernetes
/// cannot change the schema unseen.
const KEPT: [&str; 6] = [
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];
const DROPPED: [&str; 5] = [
    "description",
    "enum",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-unions",
];

/// Extracts the schema from an OpenAPI v3 document that holds core types. `quantity` is the schema for quantities.
pub(crate) fn extract(document: &Value, quantity: &Value) -> Result<Value, String> {
    let schemas = document
        .pointer("/components/schemas")
        .and_then(Value::as_object)
        .ok_or("find /components/schemas: this is no OpenAPI v3 document")?;
    Extractor { schemas, quantity }.named(POD_TEMPLATE)
}

struct Extractor<'a> {
    schemas: &'a Map<String, Value>,
    quantity: &'a Value,
}

impl Extractor<'_> {
    fn named(&self, name: &str) -> Result<Value, String> {
        match name {
            QUANTITY => return Ok(self.quantity.clone()),
            INT_OR_STRING => {
                let (least, most) = (i32::MIN, i32::MAX);
                return Ok(json!({ "x-kubernetes-int-or-string": true, "minimum": least, "maximum": most }));
            }
            TIME => return Ok(json!({ "type": "string", "format": "date-time", "nullable": true })),
            _ => {}
        }
        let schema = self
            .schemas
            .get(name)
            .ok_or_else(|| format!("find schema {name} in the document"))?;
        let mut converted = self.convert(schema).map_err(|error| format!("{error} of {name}"))?;
        if name == POD_SPEC
            && let Some(object) = converted.as_object_mut()
        {
            object.remove("required");
        }
        Ok(converted)
    }

    fn convert(&self, schema: &Value) -> Result<Value, String> {
        let schema = schema.as_object().ok_or("convert a schema that is no object")?;
        if let Some(name) = reference(schema) {
            return self.named(name);
        }
        let mut converted = Map::new();
        for (keyword, value) in schema {
            match keyword.as_str() {
                "properties" => {
                    converted.insert(keyword.clone(), self.properties(schema, value)?);
                }
                "items" | "additionalProperties" => {
                    converted.insert(keyword.clone(), self.convert(value)?);
                }
                // Defaults are decided where the property stands: see `properties`.
                "default" => {}
                kept if KEPT.contains(&kept) => {
                    converted.insert(keyword.clone(), value.clone());
                }
                dropped if DROPPED.contains(&dropped) => {}
                unknown => return Err(format!("convert the unknown keyword {unknown}")),
            }
        }
        Ok(Value::Object(converted))
    }

    fn properties(&self, parent: &Map<String, Value>, properties: &Value) -> Result<Value, String> {
        let required = parent.get("required").and_then(Value::as_array);
        let mut converted = Map::new();
        for (name, property) in properties.as_object().ok_or("convert properties that are no object")? {
            let mut schema = self.convert(property).map_err(|error| format!("{error} in {name}"))?;
            let is_required = required.is_some_and(|names| names.iter().any(|n| n == name));
            let default = property
                .get("default")
                .filter(|default| !is_required && !default.is_object());
            if let (Some(default), Some(object)) = (default, schema.as_object_mut()) {
                object.insert("default".to_owned(), default.clone());
            }
            converted.insert(name.clone(), schema);
        }
        Ok(Value::Object(converted))
    }
}

/// The name of the schema that this one refers to, directly or through a single `allOf`.
fn reference(schema: &Map<String, Value>) -> Option<&str> {
    let target = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => schema.get("$ref"),
    };
    target?.as_str()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({ "components": { "schemas": {
            POD_TEMPLATE: { "type": "object", "properties": {
                "metadata": { "allOf": [{ "$ref": "#/components/schemas/Meta" }], "default": {} },
                "spec": { "$ref": format!("#/components/schemas/{POD_SPEC}") },
            } },
            "Meta": { "type": "object", "properties": { "creationTimestamp": { "$ref": format!("#/x/{TIME}") } } },
            POD_SPEC: { "description": "gone", "type": "object", "required": ["containers"], "properties": {
                "containers": {
                    "type": "array", "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": { "type": "object", "required": ["name"], "properties": {
                        "name": { "type": "string", "default": "" },
                        "protocol": { "type": "string", "default": "TCP", "enum": ["TCP", "UDP"] },
                        "limit": { "$ref": format!("#/x/{QUANTITY}") },
                        "port": { "allOf": [{ "$ref": format!("#/x/{INT_OR_STRING}") }] },
                    } },
                },
            } },
        } } })
    }

    #[test]
    fn the_schema_is_resolved_and_reduced() {
        let schema = extract(&document(), &json!({ "quantity": true })).unwrap();
        assert_eq!(
            schema,
            json!({ "type": "object", "properties": {
                "metadata": { "type": "object", "properties": {
                    "creationTimestamp": { "type": "string", "format": "date-time", "nullable": true },
                } },
                "spec": { "type": "object", "properties": { "containers": {
                    "type": "array",
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": { "type": "object", "required": ["name"], "properties": {
                        "name": { "type": "string" },
                        "protocol": { "type": "string", "default": "TCP" },
                        "limit": { "quantity": true },
                        "port": { "x-kubernetes-int-or-string": true, "minimum": i32::MIN, "maximum": i32::MAX },
                    } },
                } } },
            } })
        );
    }

    #[test]
    fn a_keyword_that_nobody_decided_about_is_an_error() {
        let mut document = document();
        document["components"]["schemas"]["Meta"]["x-new"] = json!(true);
        let error = extract(&document, &json!({})).unwrap_err();
        assert!(error.contains("x-new") && error.contains("Meta"), "{error}");
    }
}
