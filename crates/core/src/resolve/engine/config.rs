//! `customEngineConfig`: the layers of class and engine without the paths that belong to the operator.

use serde_json::{Map, Value, json};

use super::merge;

/// Keys at the root of the configuration that belong to the operator.
const ROOT: [&str; 2] = ["schema_version", "endpoints"];
/// Sections that the operator shares with the user, with the keys in them that belong to the operator.
const SECTIONS: [(&str, &[&str]); 2] = [
    ("instance", &["id", "type", "multi_engine", "auth"]),
    ("engine", &["id", "nodes", "termination_grace_period"]),
];

/// The configuration of users, merged over the operator's defaults: first the class, then the engine. It has no key that
/// changes identity, routing or topology, so the operator's own values can be added without a check.
#[must_use]
pub(super) fn merge(class: Option<&Map<String, Value>>, engine: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut config = suggestions();
    merge::deep(&mut config, custom(class, engine));
    config
}

/// The part of [`merge`] that comes from users alone.
#[must_use]
pub(super) fn custom(class: Option<&Map<String, Value>>, engine: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut config = Map::new();
    for layer in [class, engine].into_iter().flatten() {
        merge::deep(&mut config, stripped(layer));
    }
    config
}

fn suggestions() -> Map<String, Value> {
    Map::from_iter([("logging".to_owned(), json!({ "format": "json" }))])
}

/// A layer without the keys that belong to the operator. A shared section that is not an object, or that is empty
/// afterwards, is removed.
fn stripped(layer: &Map<String, Value>) -> Map<String, Value> {
    let mut layer = layer.clone();
    layer.retain(|key, _| !ROOT.contains(&key.as_str()));
    for (section, owned) in SECTIONS {
        let Some(value) = layer.get_mut(section) else { continue };
        let emptied = value.as_object_mut().is_none_or(|object| {
            object.retain(|key, _| !owned.contains(&key.as_str()));
            object.is_empty()
        });
        if emptied {
            layer.remove(section);
        }
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).expect("an object")
    }

    #[rstest]
    #[case::root(json!({ "schema_version": "9", "endpoints": {}, "cache": 1 }), json!({ "cache": 1 }))]
    #[case::instance(json!({ "instance": { "id": "x", "type": "y", "multi_engine": {}, "auth": {}, "zone": "a" } }), json!({ "instance": { "zone": "a" } }))]
    #[case::engine(json!({ "engine": { "id": "x", "nodes": [], "termination_grace_period": "1s", "memory": 1 } }), json!({ "engine": { "memory": 1 } }))]
    #[case::emptied_section(json!({ "instance": { "id": "x" }, "engine": {} }), json!({}))]
    #[case::section_of_another_type(json!({ "instance": "x", "engine": [1] }), json!({}))]
    #[case::same_names_deeper(json!({ "cache": { "id": 1, "nodes": 2 } }), json!({ "cache": { "id": 1, "nodes": 2 } }))]
    fn paths_of_the_operator_are_stripped_from_either_layer(#[case] layer: Value, #[case] left: Value) {
        let (layer, left) = (object(layer), object(left));
        assert_eq!(custom(Some(&layer), None), left);
        assert_eq!(custom(None, Some(&layer)), left);
    }

    #[test]
    fn the_engine_wins_over_the_class_key_by_key() {
        let class = object(json!({ "logging": { "level": "info", "format": "text" }, "cache": { "size": 1 } }));
        let engine = object(json!({ "logging": { "level": "debug" } }));
        let merged = json!({ "logging": { "level": "debug", "format": "text" }, "cache": { "size": 1 } });
        assert_eq!(custom(Some(&class), Some(&engine)), object(merged));
    }

    #[test]
    fn an_invalid_section_of_the_class_does_not_affect_the_engine() {
        let class = object(json!({ "engine": "broken" }));
        let engine = object(json!({ "engine": { "memory": 1 } }));
        assert_eq!(
            custom(Some(&class), Some(&engine)),
            object(json!({ "engine": { "memory": 1 } }))
        );
    }

    #[test]
    fn logs_are_json_by_default() {
        assert_eq!(merge(None, None), object(json!({ "logging": { "format": "json" } })));
        let engine = object(json!({ "logging": { "format": "text" } }));
        assert_eq!(merge(None, Some(&engine)), engine);
    }
}
