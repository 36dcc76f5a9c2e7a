//! The bodies of merge patches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A patch of the managed fields of one version of an object.
pub(super) fn managed_fields(entries: &[ManagedFieldsEntry], version: Option<&str>) -> Value {
    json!({ "metadata": { "resourceVersion": version, "managedFields": entries } })
}

/// The next status as a merge patch: fields that only the last status has are removed.
pub(super) fn replacing<S: Serialize>(before: Option<&S>, next: &S) -> Value {
    let fields = |status: &S| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => unreachable!("a status is a JSON object"),
    };
    let mut patch: Map<String, Value> = before.map(fields).unwrap_or_default();
    patch.values_mut().for_each(|value| *value = Value::Null);
    patch.extend(fields(next));
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_status_is_replaced() {
        let before = json!({ "currentGeneration": 2, "activeGeneration": 2, "drainingGeneration": 1 });
        let next = json!({ "currentGeneration": 2, "activeGeneration": 2 });
        let patch = replacing(Some(&before), &next);
        assert_eq!(patch["drainingGeneration"], Value::Null);
        assert!(patch.as_object().unwrap().contains_key("drainingGeneration"));
        assert_eq!(patch["activeGeneration"], 2);
        assert!(
            !replacing(None, &next)
                .as_object()
                .unwrap()
                .contains_key("drainingGeneration")
        );
    }
}
