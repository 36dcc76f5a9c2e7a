//! The three custom resource definitions, complete and in the form that is shipped.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{FireboltEngine, FireboltEngineClass, FireboltInstance};

/// All custom resource definitions, in the order in which they are printed.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        FireboltInstance::crd(),
        FireboltEngine::crd(),
        FireboltEngineClass::crd(),
    ]
    .iter()
    .map(|derived| {
        let mut crd = to_json(derived);
        visit(&mut crd, remove_nullable);
        visit(&mut crd, join_lines);
        declare_name(&mut crd);
        serde_json::from_value(crd).expect("a definition without nulls is still a definition")
    })
    .collect()
}

/// All definitions as one YAML stream for `kubectl apply -f -`.
#[must_use]
pub fn crds_yaml() -> String {
    crds().iter().map(to_yaml).collect::<Vec<_>>().join("---\n")
}

/// Name of the file that contains the definition.
#[must_use]
pub fn crd_file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// Serializes an object as YAML. Numbers without a fraction have no decimal point.
#[must_use]
pub fn to_yaml(object: &impl Serialize) -> String {
    let mut value = to_json(object);
    visit(&mut value, remove_decimal_point);
    serde_saphyr::to_string(&value).expect("JSON is representable as YAML")
}

fn to_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is representable as JSON")
}

/// Removes `nullable` from optional fields, which the derived schemas set on some and not on others: a field is either
/// set or absent. Only times inside pod templates keep it, because Go programs write `creationTimestamp: null` there.
fn remove_nullable(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if object.get("format").is_none_or(|format| format != "date-time") {
        object.remove("nullable");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// Declares `metadata.name`, so that the rule about the name can refer to it.
fn declare_name(crd: &mut Value) {
    let metadata = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = metadata;
}

/// Joins the lines of descriptions, because the line breaks of doc comments do not matter to `kubectl explain`.
fn join_lines(schema: &mut Value) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

fn remove_decimal_point(value: &mut Value) {
    let whole = value
        .is_f64()
        .then(|| value.to_string())
        .and_then(|text| text.strip_suffix(".0")?.parse::<i64>().ok());
    if let Some(whole) = whole {
        *value = whole.into();
    }
}

/// Applies a change to a value and to everything inside it.
fn visit(value: &mut Value, change: fn(&mut Value)) {
    change(value);
    match value {
        Value::Object(object) => object.values_mut().for_each(|child| visit(child, change)),
        Value::Array(values) => values.iter_mut().for_each(|child| visit(child, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client-side `kubectl apply` stores the object in an annotation, and annotations are limited to 256 KiB.
    const APPLY_LIMIT: usize = 256 * 1024;

    #[test]
    fn every_definition_fits_client_side_apply() {
        for crd in crds() {
            let size = serde_json::to_string(&crd).unwrap().len();
            assert!(size < APPLY_LIMIT, "{} has {size} bytes", crd.spec.names.kind);
        }
    }

    #[test]
    fn null_is_allowed_only_for_times_in_pod_templates() {
        fn nullable(path: &str, value: &Value, found: &mut Vec<String>) {
            if let Value::Object(object) = value {
                if object.get("nullable").is_some() {
                    assert_eq!(object["format"], "date-time", "{path}");
                    found.push(path.to_owned());
                }
                for (key, child) in object {
                    nullable(&format!("{path}.{key}"), child, found);
                }
            }
        }
        for crd in crds() {
            let schema = to_json(crd.spec.versions[0].schema.as_ref().unwrap());
            let mut found = Vec::new();
            nullable("", &schema, &mut found);
            assert!(!found.is_empty());
            for path in found {
                assert!(path.contains(".template."), "{path}");
            }
        }
    }

    #[test]
    fn whole_numbers_have_no_decimal_point_in_yaml() {
        assert_eq!(to_yaml(&json!({ "a": 1.0, "b": 1.5, "c": 7 })), "a: 1\nb: 1.5\nc: 7\n");
    }

    #[test]
    fn every_field_has_a_description() {
        fn undocumented(path: &str, schema: &Value, found: &mut Vec<String>) {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let path = format!("{path}.{name}");
                if property.get("description").is_none() {
                    found.push(path.clone());
                }
                // Pod templates are documented by Kubernetes.
                if name != "template" {
                    undocumented(&path, property, found);
                    undocumented(&path, property.get("items").unwrap_or(&Value::Null), found);
                }
            }
        }
        let mut found = Vec::new();
        for crd in crds() {
            let schema = to_json(&crd.spec.versions[0].schema);
            for part in ["spec", "status"] {
                let schema = &schema["openAPIV3Schema"]["properties"][part];
                undocumented(&crd.spec.names.kind, schema, &mut found);
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
