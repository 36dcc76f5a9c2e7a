//! Objects that cannot be read: logged once, counted, forgotten when they are fixed or deleted.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use kube::runtime::watcher::Event;

use super::guarded::Guarded;
use crate::key::ObjectKey;

/// The malformed objects of one watch stream.
#[derive(Debug, Default)]
pub(super) struct MalformedObjects {
    /// The error of each.
    known: BTreeMap<ObjectKey, String>,
    /// Those that the current list has shown so far; the others are forgotten when it ends.
    listed: BTreeSet<ObjectKey>,
}

/// What to log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MalformedChange {
    /// An object cannot be read, or for another reason than before.
    Malformed {
        /// Which.
        object: ObjectKey,
        /// Why.
        error: String,
    },
    /// An object that could not be read can be now.
    Fixed {
        /// Which.
        object: ObjectKey,
    },
}

impl MalformedObjects {
    /// The number of malformed objects.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Observes an event of the stream.
    pub(super) fn observe<K: Resource>(&mut self, event: &Event<Guarded<K>>) -> Option<MalformedChange> {
        match event {
            Event::Init => {
                self.listed.clear();
                None
            }
            Event::InitApply(object) => {
                if object.0.is_err() {
                    self.listed.insert(ObjectKey::of(object));
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
                self.known.remove(&ObjectKey::of(object));
                None
            }
        }
    }

    fn applied<K: Resource>(&mut self, object: &Guarded<K>) -> Option<MalformedChange> {
        let name = ObjectKey::of(object);
        match &object.0 {
            Ok(_) => self
                .known
                .remove(&name)
                .map(|_| MalformedChange::Fixed { object: name }),
            Err(unreadable) => {
                let error = unreadable.error.clone();
                let before = self.known.insert(name.clone(), error.clone());
                (before.as_ref() != Some(&error)).then_some(MalformedChange::Malformed { object: name, error })
            }
        }
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

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("a", name)
    }

    fn good(name: &str) -> Guarded<ConfigMap> {
        object(name, &json!({"k": "v"}))
    }

    fn bad(name: &str) -> Guarded<ConfigMap> {
        object(name, &json!("many"))
    }

    #[test]
    fn a_malformed_object_is_reported_once_and_forgotten_when_fixed() {
        let mut malformed = MalformedObjects::default();
        let Some(MalformedChange::Malformed { object, error }) = malformed.observe(&Event::Apply(bad("x"))) else {
            panic!("not reported");
        };
        assert_eq!(object, key("x"));
        assert!(error.contains("many"), "{error}");
        assert_eq!(malformed.observe(&Event::Apply(bad("x"))), None);
        assert_eq!(malformed.len(), 1);
        assert_eq!(
            malformed.observe(&Event::Apply(good("x"))),
            Some(MalformedChange::Fixed { object: key("x") })
        );
        assert_eq!(malformed.len(), 0);
    }

    #[test]
    fn another_error_is_reported_again() {
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
        assert_eq!(malformed.len(), 0);
    }

    #[test]
    fn an_object_that_was_deleted_while_the_watch_was_down_is_forgotten_at_the_end_of_the_list() {
        let mut malformed = MalformedObjects::default();
        malformed.observe(&Event::Apply(bad("gone")));
        malformed.observe(&Event::Apply(bad("stays")));
        malformed.observe::<ConfigMap>(&Event::Init);
        assert_eq!(
            malformed.observe(&Event::InitApply(bad("stays"))),
            None,
            "known before the list"
        );
        assert_eq!(
            malformed.len(),
            2,
            "until the list is complete, nothing is known to be deleted"
        );
        malformed.observe::<ConfigMap>(&Event::InitDone);
        assert_eq!(malformed.len(), 1);
    }

    #[test]
    fn a_list_of_readable_objects_takes_no_memory() {
        let mut malformed = MalformedObjects::default();
        malformed.observe::<ConfigMap>(&Event::Init);
        malformed.observe(&Event::InitApply(good("x")));
        assert!(malformed.listed.is_empty());
    }
}
