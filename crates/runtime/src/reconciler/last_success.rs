//! When the last successful reconcile of each object ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::key::ObjectKey;

/// When the last successful reconcile of each object ended.
#[derive(Debug, Default)]
pub struct LastSuccess(Mutex<HashMap<ObjectKey, Timestamp>>);

impl LastSuccess {
    /// A reconcile has succeeded.
    pub(super) fn record(&self, key: &ObjectKey, now: Timestamp) {
        self.times().insert(key.clone(), now);
    }

    /// The object no longer exists.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.times().remove(key);
    }

    /// When the last reconcile of the object that succeeded ended.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Timestamp> {
        self.times().get(key).copied()
    }

    fn times(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
