//! When the last good pass over each object ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::key::ObjectKey;

/// When the last pass without error over each object ended.
#[derive(Debug, Default)]
pub struct Reconciled(Mutex<HashMap<ObjectKey, Timestamp>>);

impl Reconciled {
    /// A pass without error has ended.
    pub fn note(&self, key: &ObjectKey, now: Timestamp) {
        self.times().insert(key.clone(), now);
    }

    /// The object is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.times().remove(key);
    }

    /// When that was, if ever.
    pub fn last(&self, key: &ObjectKey) -> Option<Timestamp> {
        self.times().get(key).copied()
    }

    fn times(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
