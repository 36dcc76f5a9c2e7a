//! The canonical text of a value, and a short hash of it.
//!
//! The text of a value must never change: hashes of it are stored on objects, and a changed hash creates a new generation
//! of pods. So keys are sorted here, whatever the order of the map type. Every value counts as it is: whether an empty one
//! means something depends on its field, which is known to the resolver, and not here.

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

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
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
    fn the_order_of_keys_does_not_change_the_hash() {
        let texts = [r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#];
        let [one, other] = texts.map(|text| hash(&serde_json::from_str::<Value>(text).expect("an object")));
        assert_eq!(one, other);
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
            json!({}),
            json!({ "a": null }),
            json!({ "a": "" }),
            json!({ "a": [] }),
            json!({ "a": {} }),
            json!({ "a": { "b": "" } }),
            json!({ "a": { "b": {} } }),
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
