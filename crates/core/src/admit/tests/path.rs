//! Resolves the paths of violations in the object that they are about. Other crates include this file in their tests.

use serde_json::Value;

/// Whether the path, relative to this value, exists.
pub(super) fn leads_somewhere(value: &Value, path: &str) -> bool {
    let follow = |step: &str, child: &Value| path.strip_prefix(step).is_some_and(|rest| leads_somewhere(child, rest));
    path.is_empty()
        || match value {
            Value::Object(fields) => fields
                .iter()
                .any(|(key, child)| follow(&format!(".{key}"), child) || follow(&format!("[{key}]"), child)),
            Value::Array(items) => items.iter().enumerate().any(|(index, item)| {
                let by_name = item["name"].as_str().map(|name| format!("[{name}]"));
                follow(&format!("[{index}]"), item) || by_name.is_some_and(|step| follow(&step, item))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

#[test]
fn a_path_that_is_not_there_leads_nowhere() {
    let value = serde_json::json!({ "a": { "b.c/d]": 1 }, "l": [{ "name": "n", "x": 1 }] });
    for path in [".a[b.c/d]]", ".l[0].x", ".l[n].x"] {
        assert!(leads_somewhere(&value, path), "{path}");
    }
    for path in [".b", ".a.b", ".l[1].x", ".l[m].x", ".l[n].y"] {
        assert!(!leads_somewhere(&value, path), "{path}");
    }
}
