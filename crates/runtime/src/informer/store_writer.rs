//! Writes the events of one watch stream into a store.

use std::collections::HashSet;
use std::sync::Arc;

use kube::runtime::watcher::Event;

use super::guarded::Guarded;
use super::store::{Change, Store};
use super::watched::Watched;
use crate::key::ObjectKey;

/// Writes the events of one watch stream, of a namespace or of the whole cluster, into a store.
#[derive(Debug)]
pub(super) struct StoreWriter<K> {
    store: Arc<Store<K>>,
    namespace: Option<String>,
    /// What the current list has shown so far.
    listed: HashSet<ObjectKey>,
}

impl<K: Watched> StoreWriter<K> {
    pub(super) fn new(store: Arc<Store<K>>, namespace: Option<&str>) -> Self {
        Self {
            store,
            namespace: namespace.map(str::to_owned),
            listed: HashSet::new(),
        }
    }

    /// Writes an event of the stream and returns what changed. During a list, known objects stay; those that it did not show
    /// are removed when it ends.
    pub(super) fn write(&mut self, event: Event<Guarded<K>>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(ObjectKey::of(&object));
                vec![self.store.put(Arc::new(object))]
            }
            Event::Apply(object) => vec![self.store.put(Arc::new(object))],
            Event::Delete(object) => self.store.remove(&[ObjectKey::of(&object)]),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let is_gone = |key: &ObjectKey| {
                    let in_scope = self
                        .namespace
                        .as_ref()
                        .is_none_or(|namespace| *namespace == key.namespace);
                    in_scope && !listed.contains(key)
                };
                self.store.remove(&self.store.keys(is_gone))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Resource;
    use serde_json::json;

    use super::super::store::Index;
    use super::*;

    /// Of objects that cannot be read too.
    const BY_OWNER: Index<ConfigMap> = Index {
        name: "owner",
        value: |object| {
            let metadata = object.meta();
            let owner = metadata.labels.as_ref()?.get("owner")?;
            Some(ObjectKey::new(metadata.namespace.as_ref()?, owner))
        },
    };

    fn store() -> Arc<Store<ConfigMap>> {
        Arc::new(Store::new([BY_OWNER]))
    }

    fn config(namespace: &str, name: &str, owner: &str) -> Guarded<ConfigMap> {
        let metadata = json!({ "namespace": namespace, "name": name, "labels": { "owner": owner } });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn names(store: &Store<ConfigMap>, owner: &str) -> Vec<String> {
        let found = store.by_index(BY_OWNER, &ObjectKey::new("n", owner));
        found.iter().map(|object| ObjectKey::of(&**object).name).collect()
    }

    #[test]
    fn objects_are_found_by_key_and_by_index() {
        let store = store();
        let mut writer = StoreWriter::new(Arc::clone(&store), None);
        for (namespace, name, owner) in [
            ("n", "a-2", "a"),
            ("n", "a-1", "a"),
            ("n", "b-1", "b"),
            ("m", "a-1", "a"),
        ] {
            writer.write(Event::Apply(config(namespace, name, owner)));
        }
        assert_eq!(names(&store, "a"), ["a-1", "a-2"]);
        assert!(store.get(&ObjectKey::new("m", "a-1")).is_some());
        assert_eq!(store.len(), 4);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_in_the_store() {
        let store = store();
        let metadata = json!({ "namespace": "n", "name": "odd", "labels": { "owner": "a" } });
        let odd: Guarded<ConfigMap> = serde_json::from_value(json!({ "metadata": metadata, "data": "none" })).unwrap();
        assert!(odd.0.is_err());
        StoreWriter::new(Arc::clone(&store), None).write(Event::Apply(odd));
        assert_eq!(names(&store, "a"), ["odd"]);
    }

    #[test]
    fn an_object_that_changes_moves_within_the_index() {
        let store = store();
        let mut writer = StoreWriter::new(Arc::clone(&store), None);
        writer.write(Event::Apply(config("n", "x", "a")));
        let changes = writer.write(Event::Apply(config("n", "x", "b")));
        assert_eq!(names(&store, "a"), [""; 0]);
        assert_eq!(names(&store, "b"), ["x"]);
        let owner = |name| Some(ObjectKey::new("n", name));
        assert_eq!(changes[0].values(BY_OWNER), [owner("a"), owner("b")]);
    }

    #[test]
    fn objects_that_a_new_list_does_not_show_are_removed_at_its_end() {
        let store = store();
        let mut writer = StoreWriter::new(Arc::clone(&store), Some("n"));
        StoreWriter::new(Arc::clone(&store), Some("m")).write(Event::Apply(config("m", "other", "a")));
        writer.write(Event::Apply(config("n", "gone", "a")));
        writer.write(Event::Apply(config("n", "stays", "a")));
        writer.write(Event::Init);
        writer.write(Event::InitApply(config("n", "stays", "a")));
        assert_eq!(names(&store, "a"), ["gone", "stays"]);
        let changes = writer.write(Event::InitDone);
        assert_eq!(changes.len(), 1, "the other namespace is in another stream");
        assert!(changes[0].after.is_none());
        assert_eq!(names(&store, "a"), ["stays"]);
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_deleted_object_is_removed_from_every_index() {
        let store = store();
        let mut writer = StoreWriter::new(Arc::clone(&store), None);
        writer.write(Event::Apply(config("n", "x", "a")));
        assert_eq!(writer.write(Event::Delete(config("n", "x", "a"))).len(), 1);
        assert!(writer.write(Event::Delete(config("n", "x", "a"))).is_empty());
        assert_eq!(store.len(), 0);
        assert!(store.indexes_are_empty());
    }
}
