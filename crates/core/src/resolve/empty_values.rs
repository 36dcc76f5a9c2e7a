//! Empty values in the pod templates of users, as far as they mean the same as no value.
//!
//! Kubernetes stores no empty lists and maps, so those are removed everywhere. Other empty values stay as they are: an
//! entry of a map, or an object such as a selector, which selects everything when it is empty.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// The fields of pod templates that are maps. If one is missing, the test of all edits in `admit` fails.
pub(crate) const MAPS: [&str; 10] = [
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "userAnnotations",
    "volumeAttributes",
];

/// The template without empty lists and maps. In the pod and in the container that is the component itself, where there
/// are other values to fall back to, it has no empty texts either.
#[must_use]
pub(crate) fn without_empty_values(template: &PodTemplateSpec, own: &str) -> PodTemplateSpec {
    let mut template = serde_json::to_value(template).expect("a template is representable as JSON");
    remove_collections(&mut template);
    if let Some(pod) = template.get_mut("spec") {
        remove_texts(pod);
        let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        containers
            .filter(|container| container["name"] == own)
            .for_each(remove_texts);
    }
    serde_json::from_value(template).expect("no field of a template is required")
}

fn remove_collections(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_collections),
        Value::Object(fields) => {
            fields.values_mut().for_each(remove_collections);
            fields.retain(|field, value| match value {
                Value::Array(items) => !items.is_empty(),
                Value::Object(entries) => !entries.is_empty() || !has_only_collections(field),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a field is a map, or an object whose fields are maps and lists: then it means nothing when it is empty.
fn has_only_collections(field: &str) -> bool {
    field == "resources" || MAPS.contains(&field)
}

fn remove_texts(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| *value != "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tidied(template: &Value) -> Value {
        let template = serde_json::from_value(template.clone()).expect("a template");
        serde_json::to_value(without_empty_values(&template, "engine")).expect("a template is JSON")
    }

    #[test]
    fn empty_lists_and_maps_are_removed_at_any_depth() {
        let template = json!({
            "metadata": { "labels": {}, "annotations": {} },
            "spec": {
                "tolerations": [], "nodeSelector": {}, "overhead": {}, "resources": {},
                "affinity": { "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } },
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "x",
                    "labelSelector": { "matchLabels": {}, "matchExpressions": [] },
                }],
                "volumes": [{ "name": "v", "emptyDir": {} }],
                "containers": [{ "name": "proxy", "args": [], "resources": { "limits": {}, "claims": [] }, "securityContext": {} }],
            },
        });
        assert_eq!(
            tidied(&template),
            json!({
                "metadata": {},
                "spec": {
                    "affinity": { "podAffinity": {} },
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "x", "labelSelector": {},
                    }],
                    "volumes": [{ "name": "v", "emptyDir": {} }],
                    "containers": [{ "name": "proxy", "securityContext": {} }],
                },
            })
        );
    }

    #[test]
    fn empty_texts_are_removed_where_there_is_another_value() {
        let template = json!({
            "metadata": { "labels": { "a": "" } },
            "spec": {
                "schedulerName": "", "nodeSelector": { "a": "" },
                "containers": [
                    { "name": "engine", "image": "", "env": [{ "name": "A", "value": "" }] },
                    { "name": "proxy", "image": "" },
                ],
            },
        });
        assert_eq!(
            tidied(&template),
            json!({
                "metadata": { "labels": { "a": "" } },
                "spec": {
                    "nodeSelector": { "a": "" },
                    "containers": [
                        { "name": "engine", "env": [{ "name": "A", "value": "" }] },
                        { "name": "proxy", "image": "" },
                    ],
                },
            })
        );
    }
}
