//! Objects that are stored in a shape the operator cannot read: told once, counted, forgotten when fixed or gone.

use std::collections::{BTreeMap, BTreeSet};

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

use super::guard::Guarded;

/// Namespace and name, as in messages.
type Key = String;

/// The malformed objects of one watch stream.
#[derive(Debug, Default)]
pub struct MalformedObjects {
    /// What is wrong with each.
    known: BTreeMap<Key, String>,
    /// Those that a list under way has shown so far; others that are known are gone when it ends.
    listed: BTreeSet<Key>,
}

/// What to tell a person.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// An object cannot be read, or no longer for the same reason.
    Malformed {
        /// Which.
        object: Key,
        /// Why.
        error: String,
    },
    /// An object that could not be read can be now.
    Fixed {
        /// Which.
        object: Key,
    },
}

impl MalformedObjects {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes in an event of the stream.
    pub fn observe<K: Resource>(&mut self, event: &Event<Guarded<K>>) -> Option<News> {
        match event {
            Event::Init => {
                self.listed.clear();
                None
            }
            Event::InitApply(object) => {
                if object.0.is_err() {
                    self.listed.insert(key(object));
                }
                self.applied(object)
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.known.retain(|object, _| listed.contains(object));
                None
            }
            Event::Apply(object) => self.applied(object),
            Event::Delete(object) => {
                self.known.remove(&key(object));
                None
            }
        }
    }

    fn applied<K: Resource>(&mut self, object: &Guarded<K>) -> Option<News> {
        let name = key(object);
        match &object.0 {
            Ok(_) => self.known.remove(&name).map(|_| News::Fixed { object: name }),
            Err(unreadable) => {
                let error = unreadable.error.clone();
                let before = self.known.insert(name.clone(), error.clone());
                (before.as_ref() != Some(&error)).then_some(News::Malformed { object: name, error })
            }
        }
    }
}

fn key<K: Resource>(object: &Guarded<K>) -> Key {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, data: &serde_json::Value) -> Guarded<ConfigMap> {
        serde_json::from_value(json!({"metadata": {"namespace": "a", "name": name}, "data": data})).unwrap()
    }

    fn good(name: &str) -> Guarded<ConfigMap> {
        object(name, &json!({"k": "v"}))
    }

    fn bad(name: &str) -> Guarded<ConfigMap> {
        object(name, &json!("many"))
    }

    #[test]
    fn a_malformed_object_is_told_once_and_forgotten_when_fixed() {
        let mut malformed = MalformedObjects::default();
        let Some(News::Malformed { object, error }) = malformed.observe(&Event::Apply(bad("x"))) else {
            panic!("not told");
        };
        assert_eq!(object, "a/x");
        assert!(error.contains("many"), "{error}");
        assert_eq!(malformed.observe(&Event::Apply(bad("x"))), None);
        assert_eq!(malformed.len(), 1);
        assert_eq!(
            malformed.observe(&Event::Apply(good("x"))),
            Some(News::Fixed { object: "a/x".into() })
        );
        assert!(malformed.is_empty());
    }

    #[test]
    fn another_error_is_news_again() {
        let mut malformed = MalformedObjects::default();
        malformed.observe(&Event::Apply(bad("x")));
        assert!(malformed.observe(&Event::Apply(object("x", &json!([1])))).is_some());
        assert_eq!(malformed.len(), 1);
    }

    #[test]
    fn a_deleted_object_is_forgotten() {
        let mut malformed = MalformedObjects::default();
        malformed.observe(&Event::Apply(bad("x")));
        malformed.observe(&Event::Delete(bad("x")));
        assert!(malformed.is_empty());
    }

    #[test]
    fn an_object_that_vanished_while_the_watch_was_down_is_forgotten_at_the_end_of_the_list() {
        let mut malformed = MalformedObjects::default();
        malformed.observe(&Event::Apply(bad("gone")));
        malformed.observe(&Event::Apply(bad("stays")));
        malformed.observe::<ConfigMap>(&Event::Init);
        assert_eq!(
            malformed.observe(&Event::InitApply(bad("stays"))),
            None,
            "a new list is no news"
        );
        assert_eq!(
            malformed.len(),
            2,
            "until the list is complete, nothing is known to be gone"
        );
        malformed.observe::<ConfigMap>(&Event::InitDone);
        assert_eq!(malformed.len(), 1);
    }

    #[test]
    fn a_list_of_healthy_objects_takes_no_room() {
        let mut malformed = MalformedObjects::default();
        malformed.observe::<ConfigMap>(&Event::Init);
        malformed.observe(&Event::InitApply(good("x")));
        assert!(malformed.listed.is_empty());
    }
}
