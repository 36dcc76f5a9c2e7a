//! The canonical text of a value, and a short hash of it.
//!
//! The text of a value must never change: hashes of it are stored on objects, and a changed hash creates a new generation
//! of pods. So keys are sorted here, whatever the order of the map type, and null or empty values are left out, because
//! client libraries differ in whether they write them.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of a SHA-256 over the canonical text.
#[must_use]
pub(crate) fn hash(value: &impl Serialize) -> String {
    let mut text = String::new();
    write(&to_json(value), &mut text);
    Sha256::digest(text)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

/// A rendered object as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a Kubernetes object is representable as JSON")
}

/// Whether a value is equivalent to an absent one.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !is_empty(value)).collect();
            fields.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in fields {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_of_a_value_never_changes() {
        assert_eq!(
            hash(&json!({ "b": [1, "x", null], "a": { "c": true } })),
            "a76f3162778abe3f"
        );
    }

    #[test]
    fn null_and_empty_values_do_not_change_the_hash() {
        let bare = json!({ "a": 1 });
        let padded = json!({ "a": 1, "b": null, "c": {}, "d": [], "e": { "f": "" } });
        assert_eq!(hash(&bare), hash(&padded));
    }

    #[test]
    fn different_values_have_different_texts() {
        let values = [
            json!({ "a": 1 }),
            json!({ "a": "1" }),
            json!({ "a": [1] }),
            json!([{ "a": 1 }]),
            json!({ "b": 1 }),
            json!({ "a": 0 }),
            json!({ "a": false }),
        ];
        for (index, one) in values.iter().enumerate() {
            assert_eq!(
                values.iter().position(|other| hash(other) == hash(one)),
                Some(index),
                "{one}"
            );
        }
    }
}
