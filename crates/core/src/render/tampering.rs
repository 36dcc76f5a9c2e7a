//! Compares a live object with its rendering.
//!
//! Only rendered fields are compared: defaults of the API server and fields of other clients are ignored. Quantities are
//! compared by value. An empty value that is absent from the live object is equal to it where the API server leaves it out
//! or Kubernetes makes no difference; elsewhere, another client removed it.

use std::collections::{HashMap, VecDeque};

use firebolt_api::quantity::Amount;
use serde::Serialize;
use serde_json::Value;

use crate::canonical::to_json;
use crate::resolve::MAPS;

/// Keys of a quantity, or of a map of quantities.
const QUANTITIES: [&str; 6] = ["limits", "requests", "overhead", "sizeLimit", "divisor", "storage"];

/// Maps in which an additional entry changes the meaning: fewer pods are selected, or none.
const EXACT_MAPS: [&str; 2] = ["selector", "matchLabels"];
/// Lists in which an additional entry changes the meaning: it grants rights to another subject.
const EXACT_LISTS: [&str; 1] = ["subjects"];

/// The maps of a `ConfigMap` or a Secret.
const DATA: [&str; 3] = ["binaryData", "data", "stringData"];
/// Fields that the API server keeps when they are empty, false or zero, and whose absence means something else.
const KEPT: [&str; 12] = [
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "emptyDir",
    "enableServiceLinks",
    "fsGroup",
    "labelSelector",
    "namespaceSelector",
    "runAsGroup",
    "runAsUser",
    "selector",
    "storageClassName",
    "tolerationSeconds",
];

/// Whether every rendered field has the same value in the live object.
#[must_use]
pub(crate) fn is_intact<T: Serialize>(rendered: &T, live: &T) -> bool {
    differences(rendered, live).is_empty()
}

/// The paths of rendered fields that differ in the live object, for the message that explains a drift correction.
#[must_use]
pub fn differences<T: Serialize>(rendered: &T, live: &T) -> Vec<String> {
    let mut found = Vec::new();
    compare(Place::default(), &to_json(rendered), &to_json(live), &mut |path, _| {
        found.push(path.to_owned());
    });
    found
}

/// Those of them that the live object does not have at all.
#[must_use]
pub(crate) fn missing<T: Serialize>(rendered: &T, live: &T) -> Vec<String> {
    let mut found = Vec::new();
    compare(
        Place::default(),
        &to_json(rendered),
        &to_json(live),
        &mut |path, live| {
            if live.is_null() {
                found.push(path.to_owned());
            }
        },
    );
    found
}

/// Where a value is.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    path: &'a str,
    /// The field, or the key in a map; none for an entry of a list.
    key: &'a str,
    /// The key of the object that it is part of.
    parent: &'a str,
}

impl<'a> Place<'a> {
    /// The path of a part.
    fn below(&self, key: &str) -> String {
        match self.path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// The place of a part.
    fn part(&self, path: &'a str, key: &'a str) -> Self {
        let parent = self.key;
        Self { path, key, parent }
    }

    fn is_entry_of_map(&self) -> bool {
        MAPS.contains(&self.parent) || DATA.contains(&self.parent)
    }

    fn is_quantity(&self) -> bool {
        let is_field = QUANTITIES.contains(&self.key) && !self.is_entry_of_map();
        is_field || QUANTITIES.contains(&self.parent)
    }
}

/// Calls `found` with the path of each difference and the live value there.
fn compare(place: Place, rendered: &Value, live: &Value, found: &mut impl FnMut(&str, &Value)) {
    match (rendered, live) {
        (Value::Object(fields), Value::Object(others)) => {
            let more = others.keys().any(|key| !fields.contains_key(key));
            if more && EXACT_MAPS.contains(&place.key) {
                found(place.path, live);
            }
            for (key, field) in fields {
                let path = place.below(key);
                let live = live.get(key).unwrap_or(&Value::Null);
                compare(place.part(&path, key), field, live, found);
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            if compare_lists(place, items, others, found) {
                found(place.path, live);
            }
        }
        (_, Value::Null) if is_left_out(place, rendered) => {}
        _ if rendered == live || (place.is_quantity() && is_same_amount(rendered, live)) => {}
        _ => found(place.path, live),
    }
}

/// Whether the API server may leave the value out of its answer, or its absence means the same.
fn is_left_out(place: Place, value: &Value) -> bool {
    let is_empty = match value {
        Value::Null => return true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, field)| is_left_out(place.part("", key), field)),
    };
    is_empty && !KEPT.contains(&place.key) && !place.is_entry_of_map()
}

/// Entries with a key are found by it, wherever they stand and whatever stands beside them; of other lists, order and
/// length count. Returns whether the live list has entries that it must not have.
fn compare_lists(place: Place, rendered: &[Value], live: &[Value], found: &mut impl FnMut(&str, &Value)) -> bool {
    let key = match place.key {
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        _ => "name",
    };
    let name_of = |item: &Value| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut by_name: HashMap<String, VecDeque<&Value>> = HashMap::new();
    for (name, other) in live.iter().filter_map(|other| Some((name_of(other)?, other))) {
        by_name.entry(name).or_default().push_back(other);
    }
    for (index, item) in rendered.iter().enumerate() {
        let (label, other) = match name_of(item) {
            Some(name) => {
                // A variable may stand there twice: once from the class, and anew from the engine.
                let other = by_name.get_mut(&name).and_then(VecDeque::pop_front);
                (name, other)
            }
            None => (index.to_string(), live.get(index)),
        };
        let path = format!("{}[{label}]", place.path);
        let entry = Place {
            path: &path,
            ..Place::default()
        };
        compare(entry, item, other.unwrap_or(&Value::Null), found);
    }
    let exact = EXACT_LISTS.contains(&place.key) || rendered.iter().any(|item| item.get(key).is_none());
    exact && live.len() > rendered.len()
}

fn is_same_amount(rendered: &Value, live: &Value) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Amount>().ok());
    amount(rendered).is_some() && amount(rendered) == amount(live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::same(json!({ "a": 1 }), json!({ "a": 1 }))]
    #[case::filled_in(json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1, "c": 2 }, "d": 3 }))]
    #[case::empty_and_absent(json!({ "a": {}, "b": [], "c": "", "d": null, "e": false, "f": 0 }), json!({}))]
    #[case::empty_parts(json!({ "securityContext": {}, "affinity": { "nodeAffinity": {} }, "resources": { "limits": {} } }), json!({}))]
    #[case::quantity_of_a_device(json!({ "limits": { "example.com/gpu": "1k" } }), json!({ "limits": { "example.com/gpu": "1000" } }))]
    #[case::quantity(json!({ "limits": { "cpu": "1000m" } }), json!({ "limits": { "cpu": "1" } }))]
    #[case::size(json!({ "emptyDir": { "sizeLimit": "1024Mi" } }), json!({ "emptyDir": { "sizeLimit": "1Gi" } }))]
    #[case::one_volume_mounted_twice(json!({ "volumeMounts": [{ "name": "v", "mountPath": "/a" }, { "name": "v", "mountPath": "/b" }] }), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/b" }, { "name": "v", "mountPath": "/a" }] }))]
    #[case::foreign_sidecar(json!({ "containers": [{ "name": "engine", "image": "i" }] }), json!({ "containers": [{ "name": "mesh" }, { "name": "engine", "image": "i", "tty": false }] }))]
    #[case::variable_set_anew(json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }), json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }))]
    fn what_others_fill_in_is_no_tampering(#[case] rendered: Value, #[case] live: Value) {
        assert_eq!(differences(&rendered, &live), Vec::<String>::new());
        assert!(is_intact(&rendered, &live));
    }

    #[rstest]
    #[case::changed(json!({ "a": { "b": 1 } }), json!({ "a": { "b": 2 } }), "a.b")]
    #[case::volume_source(json!({ "volumes": [{ "name": "data", "emptyDir": {} }] }), json!({ "volumes": [{ "name": "data", "hostPath": { "path": "/" } }] }), "volumes[data].emptyDir")]
    #[case::volume_source_gone(json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }), json!({ "volumes": [{ "name": "v" }] }), "volumes[v].emptyDir")]
    #[case::empty_value_of_a_selector(json!({ "nodeSelector": { "a.example/b": "" } }), json!({ "nodeSelector": {} }), "nodeSelector.a.example/b")]
    #[case::selector_gone(json!({ "nodeSelector": { "a": "" } }), json!({}), "nodeSelector")]
    #[case::empty_label(json!({ "metadata": { "labels": { "a": "" } } }), json!({ "metadata": { "labels": { "b": "" } } }), "metadata.labels.a")]
    #[case::empty_annotation(json!({ "annotations": { "a": "" } }), json!({ "annotations": {} }), "annotations.a")]
    #[case::empty_entry(json!({ "data": { "a": "" } }), json!({ "data": {} }), "data.a")]
    #[case::everything_selected(json!({ "labelSelector": {} }), json!({}), "labelSelector")]
    #[case::every_namespace_selected(json!({ "podAffinity": { "required": [{ "topologyKey": "t", "namespaceSelector": {} }] } }), json!({ "podAffinity": { "required": [{ "topologyKey": "t" }] } }), "podAffinity.required[0].namespaceSelector")]
    #[case::no_storage_class(json!({ "storageClassName": "" }), json!({}), "storageClassName")]
    #[case::token_mounted_again(json!({ "automountServiceAccountToken": false }), json!({}), "automountServiceAccountToken")]
    #[case::switched_on(json!({ "a": false }), json!({ "a": true }), "a")]
    #[case::switched_off(json!({ "a": true }), json!({}), "a")]
    #[case::removed(json!({ "a": { "b": 1 } }), json!({ "a": {} }), "a.b")]
    #[case::list_entry(json!({ "args": ["x", "y"] }), json!({ "args": ["x", "z"] }), "args[1]")]
    #[case::list_longer(json!({ "args": ["x"] }), json!({ "args": ["x", "y"] }), "args")]
    #[case::named_entry(json!({ "env": [{ "name": "A", "value": "1" }] }), json!({ "env": [{ "name": "A", "value": "2" }] }), "env[A].value")]
    #[case::variable_set_anew(json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }), json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "3" }] }), "env[A].value")]
    #[case::variable_set_anew_gone(json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }), json!({ "env": [{ "name": "A", "value": "1" }] }), "env[A]")]
    #[case::named_entry_gone(json!({ "env": [{ "name": "A", "value": "1" }] }), json!({ "env": [] }), "env[A]")]
    #[case::amount(json!({ "limits": { "cpu": "1" } }), json!({ "limits": { "cpu": "2" } }), "limits.cpu")]
    #[case::not_a_quantity(json!({ "labels": { "cpu": "1000m" } }), json!({ "labels": { "cpu": "1" } }), "labels.cpu")]
    #[case::selector_narrowed(json!({ "selector": { "a": "1" } }), json!({ "selector": { "a": "1", "b": "2" } }), "selector")]
    #[case::another_subject_too(json!({ "subjects": [{ "name": "a" }] }), json!({ "subjects": [{ "name": "a" }, { "name": "b" }] }), "subjects")]
    #[case::type_changed(json!({ "a": [1] }), json!({ "a": { "0": 1 } }), "a")]
    fn a_changed_value_is_reported_with_its_path(#[case] rendered: Value, #[case] live: Value, #[case] path: &str) {
        assert_eq!(differences(&rendered, &live), [path]);
    }
}
