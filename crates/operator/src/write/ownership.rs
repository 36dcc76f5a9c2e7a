//! Who set which field, as Kubernetes records it, and how what we created comes to count as applied.
//!
//! Server-side apply takes a field away that was applied before and is no longer. What an object was *created* with is
//! recorded as another kind of ownership, under the same name, which applying does not touch: such a field would stay for
//! ever. So before an object that we created is applied to, the one record is merged into the other.
//!
//! With our own fields go the defaults that the API server filled in when it stored the object, since both are in one
//! record. They are taken away and filled in again within one request, so nothing changes.

use firebolt_api::key::FIELD_MANAGER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value};

/// The field that stands for the object itself, beside those within it.
const SELF: &str = ".";
const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

/// How our fields of an object are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// As applied, all of them.
    Applied,
    /// Some as created or patched. They must be handed over before an apply can take any of them away.
    Created,
}

impl Fields {
    /// How they are recorded in this metadata, of an object from the cluster or from a cache of what instances own.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        let mut entries = metadata.managed_fields.iter().flatten();
        if entries.any(is_own_update) {
            Self::Created
        } else {
            Self::Applied
        }
    }

    /// Drops from a record everything but what [`Self::of`] reads.
    pub(crate) fn prune(entries: &mut Vec<ManagedFieldsEntry>) {
        entries.retain(is_own_update);
        // One says it all.
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

/// The record in which everything of ours is applied; none if it already is.
pub(super) fn handed_over(entries: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let (updates, mut rest): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(is_own_update);
    let first = updates.first()?;
    let applied = if let Some(known) = rest.iter().position(|entry| is_own(entry, APPLY)) {
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

fn is_own_update(entry: &ManagedFieldsEntry) -> bool {
    is_own(entry, UPDATE)
}

fn is_own(entry: &ManagedFieldsEntry, operation: &str) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some(operation)
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn fields_of(entry: &ManagedFieldsEntry) -> Map<String, Value> {
    match &entry.fields_v1 {
        Some(FieldsV1(Value::Object(fields))) => fields.clone(),
        Some(_) | None => Map::new(),
    }
}

/// Adds what is below one field to what is below the same field in another record.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => {
                let stands_itself = stands_itself(known) || stands_itself(&more);
                merge(known, more);
                // A field with others below it has to say that it stands for itself too; one without does so by being there.
                if stands_itself && !known.is_empty() {
                    known.insert(SELF.to_owned(), Value::Object(Map::new()));
                }
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn stands_itself(fields: &Map<String, Value>) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

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
        entry(FIELD_MANAGER, operation, fields)
    }

    fn of_status(mut entry: ManagedFieldsEntry) -> ManagedFieldsEntry {
        entry.subresource = Some("status".to_owned());
        entry
    }

    #[test]
    fn what_was_created_becomes_applied() {
        let others = entry("kubectl", UPDATE, json!({ "f:data": {} }));
        let created = ours(UPDATE, json!({ "f:spec": { "f:replicas": {} } }));
        let expected = vec![others.clone(), ours(APPLY, json!({ "f:spec": { "f:replicas": {} } }))];
        assert_eq!(handed_over(&[others, created]), Some(expected));
    }

    #[test]
    fn what_was_created_is_added_to_what_was_applied() {
        let applied = ours(APPLY, json!({ "f:metadata": { "f:labels": { "f:a": {} } } }));
        let created = ours(
            UPDATE,
            json!({ "f:metadata": { "f:labels": { ".": {}, "f:b": {} } }, "f:data": {} }),
        );
        let union = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {}, "f:b": {} } }, "f:data": {} });
        assert_eq!(handed_over(&[created, applied]), Some(vec![ours(APPLY, union)]));
    }

    #[rstest]
    #[case::nothing_is_ours(vec![entry("kubectl", UPDATE, json!({ "f:data": {} }))])]
    #[case::all_is_applied(vec![ours(APPLY, json!({ "f:data": {} }))])]
    #[case::only_the_status_was_updated(vec![of_status(ours(UPDATE, json!({ "f:status": {} })))])]
    #[case::nothing_is_recorded(vec![])]
    fn where_nothing_is_to_hand_over_nothing_is_written(#[case] entries: Vec<ManagedFieldsEntry>) {
        assert_eq!(handed_over(&entries), None);
        let metadata = ObjectMeta {
            managed_fields: Some(entries),
            ..ObjectMeta::default()
        };
        assert_eq!(Fields::of(&metadata), Fields::Applied);
    }

    #[test]
    fn the_little_that_is_kept_of_a_record_says_what_there_is_to_do() {
        let mut entries = vec![
            entry("kubectl", UPDATE, json!({ "f:data": {} })),
            ours(UPDATE, json!({ "f:spec": {} })),
            ours(APPLY, json!({ "f:spec": {} })),
        ];
        Fields::prune(&mut entries);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].fields_v1, None);
        let metadata = ObjectMeta {
            managed_fields: Some(entries),
            ..ObjectMeta::default()
        };
        assert_eq!(Fields::of(&metadata), Fields::Created);
    }

    /// The record of a set of fields, each given by the names on the way to it.
    fn record(fields: &BTreeSet<Vec<String>>) -> Map<String, Value> {
        fn insert(below: &mut Map<String, Value>, path: &[String]) {
            let [first, rest @ ..] = path else { return };
            let is_new = !below.contains_key(first);
            let Value::Object(child) = below.entry(first).or_insert_with(|| json!({})) else {
                unreachable!("a record is made of objects")
            };
            let stood_itself = !is_new && stands_itself(child);
            insert(child, rest);
            if (stood_itself || rest.is_empty()) && !child.is_empty() {
                child.insert(SELF.to_owned(), json!({}));
            }
        }
        let mut root = Map::new();
        for path in fields {
            insert(&mut root, path);
        }
        root
    }

    /// The set of fields that a record stands for.
    fn fields(below: &Map<String, Value>, path: &[String], found: &mut BTreeSet<Vec<String>>) {
        for (key, value) in below.iter().filter(|(key, _)| *key != SELF) {
            let path = [path, std::slice::from_ref(key)].concat();
            let child = value.as_object().expect("a record is made of objects");
            fields(child, &path, found);
            if stands_itself(child) {
                found.insert(path);
            }
        }
    }

    fn some_fields() -> impl Strategy<Value = BTreeSet<Vec<String>>> {
        proptest::collection::btree_set(proptest::collection::vec("f:[abc]", 1..4), 0..8)
    }

    proptest! {
        #[test]
        fn a_union_stands_for_exactly_the_fields_of_both(one in some_fields(), other in some_fields()) {
            let mut union = record(&one);
            merge(&mut union, record(&other));
            let mut found = BTreeSet::new();
            fields(&union, &[], &mut found);
            prop_assert_eq!(found, &one | &other);
        }
    }
}
