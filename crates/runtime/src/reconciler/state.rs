//! What the process keeps of each object from one reconcile to the next. All of it can be lost.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::backoff::Backoff;
use super::drift::DriftLimiter;
use crate::events::EventDeduplicator;
use crate::key::ObjectKey;
use crate::write::Expectations;

/// The state of one object of kind `K`.
#[derive(Debug)]
pub struct ObjectState<K, S> {
    /// Our own writes that the caches may not show yet.
    pub expectations: Expectations<K>,
    /// The failures in a row.
    pub backoff: Backoff,
    /// The events that were emitted.
    pub events: EventDeduplicator,
    /// How often drift was corrected recently.
    pub drift: DriftLimiter,
    /// What the reconciler of this kind adds.
    pub own: S,
}

impl<K, S: Default> Default for ObjectState<K, S> {
    fn default() -> Self {
        Self {
            expectations: Expectations::default(),
            backoff: Backoff::default(),
            events: EventDeduplicator::default(),
            drift: DriftLimiter::default(),
            own: S::default(),
        }
    }
}

/// The states of all objects of a kind. A reconcile takes the state of its object out and puts it back.
#[derive(Debug)]
pub(super) struct ObjectStates<S> {
    by_key: Mutex<HashMap<ObjectKey, (String, S)>>,
}

impl<S> Default for ObjectStates<S> {
    fn default() -> Self {
        Self {
            by_key: Mutex::default(),
        }
    }
}

impl<S: Default> ObjectStates<S> {
    /// Takes the state of the object with this UID. The state of an earlier object of the same name is dropped.
    pub(super) fn take(&self, key: &ObjectKey, uid: &str) -> S {
        let known = self.lock(|states| states.remove(key));
        known
            .filter(|(known, _)| known == uid)
            .map(|(_, state)| state)
            .unwrap_or_default()
    }

    /// Puts the state of an object back.
    pub(super) fn put(&self, key: &ObjectKey, uid: &str, state: S) {
        self.lock(|states| states.insert(key.clone(), (uid.to_owned(), state)));
    }

    /// The object no longer exists.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock(|states| states.remove(key));
    }

    fn lock<T>(&self, action: impl FnOnce(&mut HashMap<ObjectKey, (String, S)>) -> T) -> T {
        action(&mut self.by_key.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_object_of_the_same_name_starts_with_an_empty_state() {
        let (states, key) = (ObjectStates::<u32>::default(), ObjectKey::new("n", "a"));
        states.put(&key, "u", 3);
        assert_eq!(states.take(&key, "u"), 3);
        states.put(&key, "u", 3);
        assert_eq!(states.take(&key, "v"), 0);
        states.put(&key, "u", 3);
        states.forget(&key);
        assert_eq!(states.take(&key, "u"), 0);
    }
}
