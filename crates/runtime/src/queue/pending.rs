//! The objects that changed and are not in the work queue yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::priority::Priority;

/// The objects to be queued, each at most once. It is closed until a controller runs: on a standby it would collect the
/// key of every object that ever existed.
#[derive(Debug)]
pub struct PendingSet<K> {
    is_open: AtomicBool,
    keys: Mutex<HashMap<K, Priority>>,
    added: Notify,
}

impl<K> Default for PendingSet<K> {
    fn default() -> Self {
        Self {
            is_open: AtomicBool::new(false),
            keys: Mutex::default(),
            added: Notify::new(),
        }
    }
}

impl<K: Eq + Hash> PendingSet<K> {
    /// From here on, nothing that is added is lost. The caller adds the objects that exist already.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    /// Adds an object. An urgent one stays urgent.
    pub fn add(&self, key: K, priority: Priority) {
        if !self.is_open.load(Ordering::SeqCst) {
            return;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(key)
            .and_modify(|known| *known = (*known).min(priority))
            .or_insert(priority);
        drop(keys);
        self.added.notify_one();
    }

    /// Waits until the set is not empty, and takes everything. Cancel safe.
    pub async fn take(&self) -> HashMap<K, Priority> {
        loop {
            let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
            if !keys.is_empty() {
                return keys;
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_object_that_is_added_twice_is_there_once_with_the_higher_priority() {
        let pending = PendingSet::default();
        pending.add("early", Priority::Urgent);
        pending.open();
        for (key, priority) in [
            ("a", Priority::Urgent),
            ("a", Priority::Normal),
            ("b", Priority::Normal),
        ] {
            pending.add(key, priority);
        }
        let taken = pending.take().await;
        assert_eq!(taken, HashMap::from([("a", Priority::Urgent), ("b", Priority::Normal)]));
    }
}
