//! Compares a live object with its rendering.
//!
//! Only rendered fields are compared: defaults of the API server and fields of other clients are ignored. Absent and empty
//! values are equal, and quantities are compared by value.

use std::collections::{HashMap, VecDeque};

use firebolt_api::quantity::Amount;
use serde::Serialize;
use serde_json::Value;

use crate::canonical::{is_empty, to_json};

/// Keys of a quantity, or of a map of quantities.
const QUANTITIES: [&str; 6] = ["limits", "requests", "overhead", "sizeLimit", "divisor", "storage"];

/// Maps in which an additional entry changes the meaning: fewer pods are selected, or none.
const EXACT_MAPS: [&str; 2] = ["selector", "matchLabels"];
/// Lists in which an additional entry changes the meaning: it grants rights to another subject.
const EXACT_LISTS: [&str; 1] = ["subjects"];

/// Whether every rendered field has the same value in the live object.
#[must_use]
pub(crate) fn is_intact<T: Serialize>(rendered: &T, live: &T) -> bool {
    differences(rendered, live).is_empty()
}

/// The paths of rendered fields that differ in the live object, for the message that explains a drift correction.
#[must_use]
pub fn differences<T: Serialize>(rendered: &T, live: &T) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &to_json(rendered), &to_json(live), &mut |path, _| {
        found.push(path.to_owned());
    });
    found
}

/// Those of them that the live object does not have at all.
#[must_use]
pub(crate) fn missing<T: Serialize>(rendered: &T, live: &T) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &to_json(rendered), &to_json(live), &mut |path, live| {
        if live.is_null() {
            found.push(path.to_owned());
        }
    });
    found
}

/// Calls `found` with the path of each difference and the live value there.
fn compare(path: &str, rendered: &Value, live: &Value, found: &mut impl FnMut(&str, &Value)) {
    let here = path.trim_start_matches('.');
    match (rendered, live) {
        (Value::Object(fields), Value::Object(others)) => {
            let more = others.keys().any(|key| !fields.contains_key(key));
            if more && is_one_of(path, &EXACT_MAPS) {
                found(here, live);
            }
            for (key, field) in fields {
                compare(
                    &format!("{path}.{key}"),
                    field,
                    live.get(key).unwrap_or(&Value::Null),
                    found,
                );
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            if compare_lists(path, items, others, found) {
                found(here, live);
            }
        }
        // An empty emptyDir is a choice among sources, and the API server shows it.
        (_, Value::Null) if is_left_out(rendered) && !path.ends_with(".emptyDir") => {}
        _ if rendered == live || same_amount(path, rendered, live) => {}
        _ => found(here, live),
    }
}

/// Whether the API server may leave the value out of its answer: it does so with most that are empty, false or zero.
fn is_left_out(value: &Value) -> bool {
    is_empty(value) || *value == Value::Bool(false) || value.as_i64() == Some(0)
}

/// Entries with a key are found by it, wherever they stand and whatever stands beside them; of other lists, order and
/// length count. Returns whether the live list has entries that it must not have.
fn compare_lists(path: &str, rendered: &[Value], live: &[Value], found: &mut impl FnMut(&str, &Value)) -> bool {
    let key = match path.rsplit('.').next() {
        Some("volumeMounts") => "mountPath",
        Some("volumeDevices") => "devicePath",
        Some(_) | None => "name",
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
        compare(&format!("{path}[{label}]"), item, other.unwrap_or(&Value::Null), found);
    }
    let exact = is_one_of(path, &EXACT_LISTS) || rendered.iter().any(|item| item.get(key).is_none());
    exact && live.len() > rendered.len()
}

fn is_one_of(path: &str, keys: &[&str]) -> bool {
    path.rsplit('.').next().is_some_and(|last| keys.contains(&last))
}

fn same_amount(path: &str, rendered: &Value, live: &Value) -> bool {
    let is_quantity = path.rsplit('.').take(2).any(|key| QUANTITIES.contains(&key));
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Amount>().ok());
    is_quantity && amount(rendered).is_some() && amount(rendered) == amount(live)
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
