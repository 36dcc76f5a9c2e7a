//! The objects of one kind, as the watch last saw them, found by name, by what they belong to, or by their class.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::runtime::watcher::Event;

use super::family::Family;
use super::guard::Guarded;
use super::kinds::Watched;
use crate::key::ObjectKey;

/// What readers see.
#[derive(Debug)]
pub struct Store<K> {
    content: RwLock<Content<K>>,
}

#[derive(Debug)]
struct Content<K> {
    family: Family,
    objects: HashMap<ObjectKey, Arc<Guarded<K>>>,
    belongings: Index,
    of_classes: Index,
}

/// The names of objects by something else that they name, in the same namespace.
#[derive(Debug, Default)]
struct Index(HashMap<ObjectKey, BTreeSet<String>>);

impl Index {
    fn add(&mut self, to: Option<ObjectKey>, name: &str) {
        if let Some(to) = to {
            self.0.entry(to).or_default().insert(name.to_owned());
        }
    }

    fn take(&mut self, from: Option<ObjectKey>, name: &str) {
        if let Some(from) = from
            && let Some(names) = self.0.get_mut(&from)
        {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(&from);
            }
        }
    }

    fn names(&self, key: &ObjectKey) -> impl Iterator<Item = &String> {
        self.0.get(key).into_iter().flatten()
    }
}

/// An object that appeared, changed or went.
#[derive(Debug)]
pub struct Change<K> {
    /// What was known of it.
    pub before: Option<Arc<Guarded<K>>>,
    /// What is known now; none if it is gone.
    pub after: Option<Arc<Guarded<K>>>,
}

impl<K: Watched> Change<K> {
    /// What the object belonged to and belongs to now.
    pub fn owners(&self, family: Family) -> impl Iterator<Item = ObjectKey> {
        let owners = [&self.before, &self.after].map(|object| K::owner(object.as_ref()?, family));
        owners.into_iter().flatten()
    }

    /// The name of the object.
    #[must_use]
    pub fn key(&self) -> Option<ObjectKey> {
        let object = self.after.as_ref().or(self.before.as_ref())?;
        Some(ObjectKey::of(&**object))
    }
}

impl<K: Watched> Store<K> {
    /// Nothing yet, of this family.
    #[must_use]
    pub fn of(family: Family) -> Self {
        let content = Content {
            family,
            objects: HashMap::new(),
            belongings: Index::default(),
            of_classes: Index::default(),
        };
        Self {
            content: RwLock::new(content),
        }
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object of this name.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Guarded<K>>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Guarded<K>>> {
        self.read().objects.values().cloned().collect()
    }

    /// The objects that belong to `owner`, by name.
    #[must_use]
    pub fn belonging_to(&self, owner: &ObjectKey) -> Vec<Arc<Guarded<K>>> {
        let content = self.read();
        let names = content.belongings.names(owner);
        names
            .filter_map(|name| content.objects.get(&ObjectKey::new(&owner.namespace, name)).cloned())
            .collect()
    }

    /// The names of the objects that are of `class`, in their order.
    #[must_use]
    pub fn of_class(&self, class: &ObjectKey) -> Vec<String> {
        self.read().of_classes.names(class).cloned().collect()
    }

    /// How many there are of `class`.
    #[must_use]
    pub fn count_of_class(&self, class: &ObjectKey) -> usize {
        self.read().of_classes.0.get(class).map_or(0, BTreeSet::len)
    }

    /// The names of the objects in a namespace that cannot be read, so that nobody knows what they refer to.
    #[must_use]
    pub fn unreadable_in(&self, namespace: &str) -> Vec<String> {
        let content = self.read();
        let objects = content.objects.iter();
        let unreadable = objects.filter(|(key, object)| key.namespace == namespace && object.0.is_err());
        let mut names: Vec<String> = unreadable.map(|(key, _)| key.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Takes an object in, for tests that have no watch.
    #[cfg(test)]
    pub(crate) fn put(&self, object: Arc<Guarded<K>>) {
        self.write().put(object);
    }

    fn read(&self) -> RwLockReadGuard<'_, Content<K>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content<K>> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Watched> Content<K> {
    fn put(&mut self, object: Arc<Guarded<K>>) -> Change<K> {
        let key = ObjectKey::of(&*object);
        let before = self.remove(&key);
        self.belongings.add(K::owner(&object, self.family), &key.name);
        self.of_classes.add(K::class(&object), &key.name);
        self.objects.insert(key, Arc::clone(&object));
        Change {
            before,
            after: Some(object),
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Guarded<K>>> {
        let object = self.objects.remove(key)?;
        self.belongings.take(K::owner(&object, self.family), &key.name);
        self.of_classes.take(K::class(&object), &key.name);
        Some(object)
    }
}

/// Feeds a store from one watch stream: a namespace, or the whole cluster.
#[derive(Debug)]
pub(super) struct Feed<K> {
    store: Arc<Store<K>>,
    namespace: Option<String>,
    /// What the list under way has shown so far.
    listed: HashSet<ObjectKey>,
}

impl<K: Watched> Feed<K> {
    pub fn new(store: Arc<Store<K>>, namespace: Option<&str>) -> Self {
        Self {
            store,
            namespace: namespace.map(str::to_owned),
            listed: HashSet::new(),
        }
    }

    /// Takes in an event of the stream and says what changed. While a list is under way, what was known stays; what it
    /// did not show is gone when it ends.
    pub fn take(&mut self, event: Event<Guarded<K>>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(ObjectKey::of(&object));
                vec![self.store.write().put(Arc::new(object))]
            }
            Event::Apply(object) => vec![self.store.write().put(Arc::new(object))],
            Event::Delete(object) => self.remove(&[ObjectKey::of(&object)]),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let is_gone = |key: &&ObjectKey| {
                    let mine = self
                        .namespace
                        .as_ref()
                        .is_none_or(|namespace| *namespace == key.namespace);
                    mine && !listed.contains(*key)
                };
                let gone: Vec<ObjectKey> = self.store.read().objects.keys().filter(is_gone).cloned().collect();
                self.remove(&gone)
            }
        }
    }

    fn remove(&self, keys: &[ObjectKey]) -> Vec<Change<K>> {
        let mut content = self.store.write();
        let removed = keys.iter().filter_map(|key| content.remove(key));
        removed
            .map(|object| Change {
                before: Some(object),
                after: None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltEngine;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Resource, ResourceExt};
    use serde_json::json;

    use super::*;

    fn config(namespace: &str, name: &str, engine: &str) -> Guarded<ConfigMap> {
        let labels = json!({ firebolt_api::key::Label::Engine.key(): engine });
        let metadata = json!({ "namespace": namespace, "name": name, "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn names(store: &Store<ConfigMap>, engine: &str) -> Vec<String> {
        let found = store.belonging_to(&ObjectKey::new("n", engine));
        found.iter().map(|object| ObjectKey::of(&**object).name).collect()
    }

    #[test]
    fn objects_are_found_by_name_and_by_what_they_belong_to() {
        let store = Arc::new(Store::of(Family::OfEngines));
        let mut feed = Feed::new(Arc::clone(&store), None);
        for (namespace, name, engine) in [
            ("n", "a-2", "a"),
            ("n", "a-1", "a"),
            ("n", "b-1", "b"),
            ("m", "a-1", "a"),
        ] {
            feed.take(Event::Apply(config(namespace, name, engine)));
        }
        assert_eq!(names(&store, "a"), ["a-1", "a-2"]);
        assert!(store.get(&ObjectKey::new("m", "a-1")).is_some());
        assert_eq!(store.len(), 4);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_not_absent() {
        let store = Arc::new(Store::of(Family::OfEngines));
        let labels = json!({ firebolt_api::key::Label::Engine.key(): "a" });
        let metadata = json!({ "namespace": "n", "name": "odd", "labels": labels });
        let odd: Guarded<ConfigMap> = serde_json::from_value(json!({ "metadata": metadata, "data": "none" })).unwrap();
        assert!(odd.0.is_err());
        Feed::new(Arc::clone(&store), None).take(Event::Apply(odd));
        assert_eq!(names(&store, "a"), ["odd"]);
    }

    #[test]
    fn engines_are_found_by_the_instance_and_by_the_class_that_they_refer_to() {
        let store: Store<FireboltEngine> = Store::of(Family::Root);
        let engine = |name: &str, spec: serde_json::Value| {
            let metadata = json!({ "namespace": "n", "name": name });
            let kind = json!({ "apiVersion": FireboltEngine::api_version(&()), "kind": "FireboltEngine" });
            let mut engine = json!({ "metadata": metadata, "spec": spec });
            engine
                .as_object_mut()
                .unwrap()
                .extend(kind.as_object().unwrap().clone());
            store.put(Arc::new(serde_json::from_value(engine).unwrap()));
        };
        engine("a", json!({ "instanceRef": "i", "engineClassRef": "i", "replicas": 1 }));
        engine(
            "moves",
            json!({ "instanceRef": "j", "engineClassRef": "i", "replicas": 1 }),
        );
        engine(
            "moves",
            json!({ "instanceRef": "j", "engineClassRef": "c", "replicas": 1 }),
        );
        engine("b", json!({ "instanceRef": "j", "replicas": 1 }));
        engine("odd", json!({ "instanceRef": "i", "replicas": "many" }));
        let found = store.belonging_to(&ObjectKey::new("n", "i"));
        let names: Vec<_> = found.iter().map(|engine| engine.name_any()).collect();
        assert_eq!(names, ["a"]);
        for (class, expected) in [("i", &["a"][..]), ("c", &["moves"]), ("j", &[])] {
            let class = ObjectKey::new("n", class);
            assert_eq!(store.of_class(&class), expected);
            assert_eq!(store.count_of_class(&class), expected.len());
        }
        assert_eq!(store.of_class(&ObjectKey::new("m", "i")), [""; 0]);
        assert_eq!(store.unreadable_in("n"), ["odd"]);
        assert_eq!(store.unreadable_in("m"), [""; 0]);
    }

    #[test]
    fn an_object_that_is_relabelled_belongs_to_its_new_owner_only() {
        let store = Arc::new(Store::of(Family::OfEngines));
        let mut feed = Feed::new(Arc::clone(&store), None);
        feed.take(Event::Apply(config("n", "x", "a")));
        let changes = feed.take(Event::Apply(config("n", "x", "b")));
        assert_eq!(names(&store, "a"), [""; 0]);
        assert_eq!(names(&store, "b"), ["x"]);
        assert_eq!(
            ConfigMap::owner(changes[0].before.as_ref().unwrap(), Family::OfEngines),
            Some(ObjectKey::new("n", "a"))
        );
    }

    #[test]
    fn what_a_new_list_does_not_show_is_gone_at_its_end_and_no_sooner() {
        let store = Arc::new(Store::of(Family::OfEngines));
        let mut feed = Feed::new(Arc::clone(&store), Some("n"));
        Feed::new(Arc::clone(&store), Some("m")).take(Event::Apply(config("m", "other", "a")));
        feed.take(Event::Apply(config("n", "gone", "a")));
        feed.take(Event::Apply(config("n", "stays", "a")));
        feed.take(Event::Init);
        feed.take(Event::InitApply(config("n", "stays", "a")));
        assert_eq!(names(&store, "a"), ["gone", "stays"]);
        let changes = feed.take(Event::InitDone);
        assert_eq!(changes.len(), 1, "another namespace is not this list's business");
        assert!(changes[0].after.is_none());
        assert_eq!(names(&store, "a"), ["stays"]);
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_deleted_object_leaves_nothing_behind() {
        let store = Arc::new(Store::of(Family::OfEngines));
        let mut feed = Feed::new(Arc::clone(&store), None);
        feed.take(Event::Apply(config("n", "x", "a")));
        assert_eq!(feed.take(Event::Delete(config("n", "x", "a"))).len(), 1);
        assert!(feed.take(Event::Delete(config("n", "x", "a"))).is_empty());
        assert!(store.is_empty());
        assert!(store.read().belongings.0.is_empty());
    }
}
