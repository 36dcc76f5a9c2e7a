//! The three ways in which a value of the class and a value of the engine become one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The engine's value if it has one, else the class's. For scalars, and for structures that are taken whole.
pub(super) fn engine_first<T>(class: Option<T>, engine: Option<T>) -> Option<T> {
    engine.or(class)
}

/// The entries of the class, then those of the engine.
pub(super) fn class_then_engine<T>(class: Option<Vec<T>>, engine: Option<Vec<T>>) -> Option<Vec<T>> {
    let all: Vec<T> = class.into_iter().chain(engine).flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// The entries of both; where both have a key, the engine's.
pub(super) fn engine_keys_win<T>(
    class: Option<BTreeMap<String, T>>,
    engine: Option<BTreeMap<String, T>>,
) -> Option<BTreeMap<String, T>> {
    let all: BTreeMap<String, T> = class.into_iter().chain(engine).flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// Merges `top` into `base`: objects key by key, anything else is replaced.
pub(super) fn deep(base: &mut Map<String, Value>, top: Map<String, Value>) {
    for (key, value) in top {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => deep(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn engine_first_falls_back_to_the_class() {
        assert_eq!(engine_first(Some("class"), Some("engine")), Some("engine"));
        assert_eq!(engine_first(Some("class"), None), Some("class"));
        assert_eq!(engine_first::<&str>(None, None), None);
    }

    #[test]
    fn lists_are_the_class_then_the_engine() {
        assert_eq!(
            class_then_engine(Some(vec![1, 2]), Some(vec![2, 3])),
            Some(vec![1, 2, 2, 3])
        );
        assert_eq!(class_then_engine(None, Some(vec![3])), Some(vec![3]));
        assert_eq!(class_then_engine::<i32>(Some(vec![]), None), None);
    }

    #[test]
    fn keys_of_the_engine_win() {
        let map = |entries: &[(&str, i32)]| Some(entries.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect());
        assert_eq!(
            engine_keys_win(map(&[("a", 1), ("b", 1)]), map(&[("b", 2)])),
            map(&[("a", 1), ("b", 2)])
        );
        assert_eq!(engine_keys_win::<i32>(None, map(&[])), None);
    }

    fn laid(mut base: Value, top: Value) -> Value {
        let (Some(below), Value::Object(above)) = (base.as_object_mut(), top) else {
            panic!("both are objects");
        };
        deep(below, above);
        base
    }

    #[test]
    fn objects_merge_and_anything_else_is_replaced() {
        let base = json!({ "a": { "b": 1, "c": [1, 2] }, "d": { "e": 1 }, "f": 1 });
        let top = json!({ "a": { "c": [3], "g": null }, "d": 2, "f": { "h": 1 } });
        let merged = json!({ "a": { "b": 1, "c": [3], "g": null }, "d": 2, "f": { "h": 1 } });
        assert_eq!(laid(base, top), merged);
    }

    fn any_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!([1])), Just(Value::Null)];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map))
        });
        prop::collection::btree_map("[ab]", tree, 0..3).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn merging_nothing_or_the_same_changes_nothing(object in any_object()) {
            prop_assert_eq!(laid(object.clone(), json!({})), object.clone());
            prop_assert_eq!(laid(json!({}), object.clone()), object.clone());
            prop_assert_eq!(laid(object.clone(), object.clone()), object);
        }

        #[test]
        fn three_layers_merge_the_same_in_either_grouping(a in any_object(), b in any_object(), c in any_object()) {
            let left = laid(laid(a.clone(), b.clone()), c.clone());
            // Grouping to the right loses what a leaf of `b` replaced in `a` only if `c` puts an object there again.
            let right = laid(a, laid(b.clone(), c.clone()));
            prop_assume!(!replaces_a_leaf_by_an_object(&b, &c));
            prop_assert_eq!(left, right);
        }
    }

    fn replaces_a_leaf_by_an_object(below: &Value, above: &Value) -> bool {
        let (Some(below), Some(above)) = (below.as_object(), above.as_object()) else {
            return false;
        };
        above.iter().any(|(key, value)| match below.get(key) {
            Some(old) => (value.is_object() && !old.is_object()) || replaces_a_leaf_by_an_object(old, value),
            None => false,
        })
    }
}
