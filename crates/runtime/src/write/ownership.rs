//! Managed fields, and how fields that an object was created with become applied ones.
//!
//! Server-side apply removes a field that was applied before and is not any more. Fields that an object was *created* with
//! are recorded in an `Update` entry of the same manager, which apply does not touch: such a field would stay for ever. So
//! before the first apply to an object that we created, the `Update` entry is merged into the `Apply` entry.
//!
//! The `Update` entry also contains the defaults that the API server set when it stored the object. They are removed and
//! set again within one request, so nothing changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value};

/// The key that stands for the object itself, beside its fields.
const SELF: &str = ".";
const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

/// How the fields that a manager owns in an object are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOwnership {
    /// All of them as applied.
    Applied,
    /// Some as created or patched. They must be handed over before an apply can remove any of them.
    Created,
}

impl FieldOwnership {
    /// How the fields of `manager` are recorded in this metadata.
    #[must_use]
    pub fn of(metadata: &ObjectMeta, manager: &str) -> Self {
        let mut entries = metadata.managed_fields.iter().flatten();
        if entries.any(|entry| is_update(entry, manager)) {
            Self::Created
        } else {
            Self::Applied
        }
    }

    /// Drops everything but what [`Self::of`] reads, for objects in a cache.
    pub fn prune(entries: &mut Vec<ManagedFieldsEntry>, manager: &str) {
        entries.retain(|entry| is_update(entry, manager));
        // One is enough.
        entries.truncate(1);
        for entry in entries {
            *entry = ManagedFieldsEntry {
                manager: entry.manager.take(),
                operation: entry.operation.take(),
                ..ManagedFieldsEntry::default()
            };
        }
    }
}

/// The entries in which all fields of `manager` are applied; none if they already are.
pub(super) fn handed_over(entries: &[ManagedFieldsEntry], manager: &str) -> Option<Vec<ManagedFieldsEntry>> {
    let (updates, mut rest): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|entry| is_update(entry, manager));
    let first = updates.first()?;
    let applied = if let Some(known) = rest.iter().position(|entry| is_operation(entry, manager, APPLY)) {
        known
    } else {
        rest.push(ManagedFieldsEntry {
            operation: Some(APPLY.to_owned()),
            fields_v1: None,
            ..first.clone()
        });
        rest.len() - 1
    };
    let mut fields = fields_of(&rest[applied]);
    for update in &updates {
        merge(&mut fields, fields_of(update));
    }
    rest[applied].fields_v1 = Some(FieldsV1(Value::Object(fields)));
    Some(rest)
}

fn is_update(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    is_operation(entry, manager, UPDATE)
}

fn is_operation(entry: &ManagedFieldsEntry, manager: &str, operation: &str) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some(operation)
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn fields_of(entry: &ManagedFieldsEntry) -> Map<String, Value> {
    match &entry.fields_v1 {
        Some(FieldsV1(Value::Object(fields))) => fields.clone(),
        Some(_) | None => Map::new(),
    }
}

/// Adds the fields of one entry to those of another.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => {
                let owns_itself = owns_itself(known) || owns_itself(&more);
                merge(known, more);
                // A key with fields below it owns the object itself only with an extra key.
                if owns_itself && !known.is_empty() {
                    known.insert(SELF.to_owned(), Value::Object(Map::new()));
                }
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn owns_itself(fields: &Map<String, Value>) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "widget-operator";

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            api_version: Some("v1".to_owned()),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    fn ours(operation: &str, fields: Value) -> ManagedFieldsEntry {
        entry(MANAGER, operation, fields)
    }

    fn of_status(mut entry: ManagedFieldsEntry) -> ManagedFieldsEntry {
        entry.subresource = Some("status".to_owned());
        entry
    }

    #[test]
    fn created_fields_become_applied() {
        let others = entry("kubectl", UPDATE, json!({ "f:data": {} }));
        let created = ours(UPDATE, json!({ "f:spec": { "f:replicas": {} } }));
        let expected = vec![others.clone(), ours(APPLY, json!({ "f:spec": { "f:replicas": {} } }))];
        assert_eq!(handed_over(&[others, created], MANAGER), Some(expected));
    }

    #[test]
    fn created_fields_are_added_to_applied_ones() {
        let applied = ours(APPLY, json!({ "f:metadata": { "f:labels": { "f:a": {} } } }));
        let created = ours(
            UPDATE,
            json!({ "f:metadata": { "f:labels": { ".": {}, "f:b": {} } }, "f:data": {} }),
        );
        let union = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {}, "f:b": {} } }, "f:data": {} });
        assert_eq!(
            handed_over(&[created, applied], MANAGER),
            Some(vec![ours(APPLY, union)])
        );
    }

    #[rstest]
    #[case::nothing_is_ours(vec![entry("kubectl", UPDATE, json!({ "f:data": {} }))])]
    #[case::all_is_applied(vec![ours(APPLY, json!({ "f:data": {} }))])]
    #[case::only_the_status_was_updated(vec![of_status(ours(UPDATE, json!({ "f:status": {} })))])]
    #[case::nothing_is_recorded(vec![])]
    fn without_created_fields_there_is_nothing_to_hand_over(#[case] entries: Vec<ManagedFieldsEntry>) {
        assert_eq!(handed_over(&entries, MANAGER), None);
        let metadata = ObjectMeta {
            managed_fields: Some(entries),
            ..ObjectMeta::default()
        };
        assert_eq!(FieldOwnership::of(&metadata, MANAGER), FieldOwnership::Applied);
    }

    #[test]
    fn pruned_entries_still_show_created_fields() {
        let mut entries = vec![
            entry("kubectl", UPDATE, json!({ "f:data": {} })),
            ours(UPDATE, json!({ "f:spec": {} })),
            ours(APPLY, json!({ "f:spec": {} })),
        ];
        FieldOwnership::prune(&mut entries, MANAGER);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].fields_v1, None);
        let metadata = ObjectMeta {
            managed_fields: Some(entries),
            ..ObjectMeta::default()
        };
        assert_eq!(FieldOwnership::of(&metadata, MANAGER), FieldOwnership::Created);
    }

    /// The entry of a set of fields, each given by its path.
    fn entry_of(fields: &BTreeSet<Vec<String>>) -> Map<String, Value> {
        fn insert(below: &mut Map<String, Value>, path: &[String]) {
            let [first, rest @ ..] = path else { return };
            let is_new = !below.contains_key(first);
            let Value::Object(child) = below.entry(first).or_insert_with(|| json!({})) else {
                unreachable!("an entry is made of objects")
            };
            let owned_itself = !is_new && owns_itself(child);
            insert(child, rest);
            if (owned_itself || rest.is_empty()) && !child.is_empty() {
                child.insert(SELF.to_owned(), json!({}));
            }
        }
        let mut root = Map::new();
        for path in fields {
            insert(&mut root, path);
        }
        root
    }

    /// The set of fields of an entry.
    fn fields(below: &Map<String, Value>, path: &[String], found: &mut BTreeSet<Vec<String>>) {
        for (key, value) in below.iter().filter(|(key, _)| *key != SELF) {
            let path = [path, std::slice::from_ref(key)].concat();
            let child = value.as_object().expect("an entry is made of objects");
            fields(child, &path, found);
            if owns_itself(child) {
                found.insert(path);
            }
        }
    }

    fn some_fields() -> impl Strategy<Value = BTreeSet<Vec<String>>> {
        proptest::collection::btree_set(proptest::collection::vec("f:[abc]", 1..4), 0..8)
    }

    proptest! {
        #[test]
        fn a_merged_entry_has_exactly_the_fields_of_both(one in some_fields(), other in some_fields()) {
            let mut union = entry_of(&one);
            merge(&mut union, entry_of(&other));
            let mut found = BTreeSet::new();
            fields(&union, &[], &mut found);
            prop_assert_eq!(found, &one | &other);
        }
    }
}
