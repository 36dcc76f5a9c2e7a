//! The objects of one kind, as last seen by a watch, found by key or by index.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::guarded::Guarded;
use super::watched::Watched;
use crate::key::ObjectKey;

/// An index of a store. The value of an object is the key of another object that it refers to, in the same namespace.
#[derive(Debug)]
pub struct Index<K> {
    /// Its name, unique within the store.
    pub name: &'static str,
    /// The value of an object. Objects without one are not in the index.
    pub value: fn(&Guarded<K>) -> Option<ObjectKey>,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Index<K> {}

/// The objects of one kind. Reads never reach the API server and may be outdated.
#[derive(Debug)]
pub struct Store<K> {
    content: RwLock<Content<K>>,
}

#[derive(Debug)]
struct Content<K> {
    objects: HashMap<ObjectKey, Arc<Guarded<K>>>,
    indexes: Vec<(Index<K>, Names)>,
}

/// The names of the objects with each value.
#[derive(Debug, Default)]
struct Names(HashMap<ObjectKey, BTreeSet<String>>);

impl Names {
    fn add(&mut self, value: Option<ObjectKey>, name: &str) {
        if let Some(value) = value {
            self.0.entry(value).or_default().insert(name.to_owned());
        }
    }

    fn remove(&mut self, value: Option<ObjectKey>, name: &str) {
        if let Some(value) = value
            && let Some(names) = self.0.get_mut(&value)
        {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(&value);
            }
        }
    }
}

/// An object that was created, changed or deleted.
#[derive(Debug)]
pub struct Change<K> {
    /// The object before, if it was known.
    pub before: Option<Arc<Guarded<K>>>,
    /// The object now; none if it was deleted.
    pub after: Option<Arc<Guarded<K>>>,
}

impl<K: Watched> Change<K> {
    /// The values of an index before and now.
    #[must_use]
    pub fn values(&self, index: Index<K>) -> [Option<ObjectKey>; 2] {
        [&self.before, &self.after].map(|object| (index.value)(object.as_ref()?))
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> Option<ObjectKey> {
        let object = self.after.as_ref().or(self.before.as_ref())?;
        Some(ObjectKey::of(&**object))
    }
}

impl<K: Watched> Store<K> {
    /// An empty store with these indexes.
    #[must_use]
    pub fn new(indexes: impl IntoIterator<Item = Index<K>>) -> Self {
        let indexes = indexes.into_iter().map(|index| (index, Names::default()));
        let content = Content {
            objects: HashMap::new(),
            indexes: indexes.collect(),
        };
        Self {
            content: RwLock::new(content),
        }
    }

    /// The number of objects.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// The object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Guarded<K>>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Guarded<K>>> {
        self.read().objects.values().cloned().collect()
    }

    /// The objects with this value in an index, by name.
    #[must_use]
    pub fn by_index(&self, index: Index<K>, value: &ObjectKey) -> Vec<Arc<Guarded<K>>> {
        let content = self.read();
        let names = content.names(index, value).into_iter().flatten();
        names
            .filter_map(|name| content.objects.get(&ObjectKey::new(&value.namespace, name)).cloned())
            .collect()
    }

    /// The names of the objects with this value in an index, sorted.
    #[must_use]
    pub fn names_by_index(&self, index: Index<K>, value: &ObjectKey) -> Vec<String> {
        let content = self.read();
        content.names(index, value).into_iter().flatten().cloned().collect()
    }

    /// The number of objects with this value in an index.
    #[must_use]
    pub fn count_by_index(&self, index: Index<K>, value: &ObjectKey) -> usize {
        self.read().names(index, value).map_or(0, BTreeSet::len)
    }

    /// The names of the objects in a namespace that cannot be read, sorted. They are in no index that reads more than their
    /// metadata.
    #[must_use]
    pub fn unreadable_in(&self, namespace: &str) -> Vec<String> {
        let content = self.read();
        let objects = content.objects.iter();
        let unreadable = objects.filter(|(key, object)| key.namespace == namespace && object.0.is_err());
        let mut names: Vec<String> = unreadable.map(|(key, _)| key.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Adds an object or replaces it. An informer does this for every object that its watch shows.
    pub fn put(&self, object: Arc<Guarded<K>>) -> Change<K> {
        self.write().put(object)
    }

    /// Removes the objects with these keys.
    pub(super) fn remove(&self, keys: &[ObjectKey]) -> Vec<Change<K>> {
        let mut content = self.write();
        let removed = keys.iter().filter_map(|key| content.remove(key));
        removed
            .map(|object| Change {
                before: Some(object),
                after: None,
            })
            .collect()
    }

    /// The keys for which `is` holds.
    pub(super) fn keys(&self, is: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let content = self.read();
        content.objects.keys().filter(|key| is(key)).cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn indexes_are_empty(&self) -> bool {
        self.read().indexes.iter().all(|(_, names)| names.0.is_empty())
    }

    fn read(&self) -> RwLockReadGuard<'_, Content<K>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content<K>> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Watched> Content<K> {
    fn names(&self, index: Index<K>, value: &ObjectKey) -> Option<&BTreeSet<String>> {
        let known = self.indexes.iter().find(|(known, _)| known.name == index.name);
        let (_, names) = known.unwrap_or_else(|| panic!("the store of {} has no index {}", K::kind(&()), index.name));
        names.0.get(value)
    }

    fn put(&mut self, object: Arc<Guarded<K>>) -> Change<K> {
        let key = ObjectKey::of(&*object);
        let before = self.remove(&key);
        for (index, names) in &mut self.indexes {
            names.add((index.value)(&object), &key.name);
        }
        self.objects.insert(key, Arc::clone(&object));
        Change {
            before,
            after: Some(object),
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Guarded<K>>> {
        let object = self.objects.remove(key)?;
        for (index, names) in &mut self.indexes {
            names.remove((index.value)(&object), &key.name);
        }
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::widget::Widget;

    const BY_OWNER: Index<Widget> = Index {
        name: "owner",
        value: |widget| {
            let widget = widget.0.as_ref().ok()?;
            Some(ObjectKey::new(
                widget.metadata.namespace.as_ref()?,
                &widget.spec.owner_ref,
            ))
        },
    };
    const BY_CLASS: Index<Widget> = Index {
        name: "class",
        value: |widget| {
            let widget = widget.0.as_ref().ok()?;
            let class = widget.spec.class_ref.as_ref()?;
            Some(ObjectKey::new(widget.metadata.namespace.as_ref()?, class))
        },
    };

    #[test]
    fn objects_are_found_by_each_index_and_unreadable_ones_by_namespace() {
        let store: Store<Widget> = Store::new([BY_OWNER, BY_CLASS]);
        let put = |name: &str, spec: serde_json::Value| {
            let widget = json!({ "metadata": { "namespace": "n", "name": name }, "spec": spec });
            store.put(Arc::new(serde_json::from_value(widget).unwrap()));
        };
        put("a", json!({ "ownerRef": "i", "classRef": "i" }));
        put("moves", json!({ "ownerRef": "j", "classRef": "i" }));
        put("moves", json!({ "ownerRef": "j", "classRef": "c" }));
        put("b", json!({ "ownerRef": "j" }));
        put("odd", json!({ "ownerRef": "i", "replicas": "many" }));
        for (index, value, expected) in [
            (BY_OWNER, "i", &["a"][..]),
            (BY_OWNER, "j", &["b", "moves"]),
            (BY_CLASS, "i", &["a"]),
            (BY_CLASS, "c", &["moves"]),
            (BY_CLASS, "j", &[]),
        ] {
            let value = ObjectKey::new("n", value);
            let found = store.by_index(index, &value);
            let names: Vec<_> = found.iter().map(|widget| ObjectKey::of(&**widget).name).collect();
            assert_eq!(names, expected);
            assert_eq!(store.names_by_index(index, &value), expected);
            assert_eq!(store.count_by_index(index, &value), expected.len());
        }
        assert_eq!(store.names_by_index(BY_OWNER, &ObjectKey::new("m", "i")), [""; 0]);
        assert_eq!(store.unreadable_in("n"), ["odd"]);
        assert_eq!(store.unreadable_in("m"), [""; 0]);
    }

    #[test]
    #[should_panic(expected = "the store of Widget has no index class")]
    fn an_index_that_the_store_does_not_have_is_a_bug() {
        let store: Store<Widget> = Store::new([BY_OWNER]);
        drop(store.names_by_index(BY_CLASS, &ObjectKey::new("n", "c")));
    }
}
