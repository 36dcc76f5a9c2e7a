//! What the watches have seen and nobody has looked at yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::agenda::Lane;
use crate::key::ObjectKey;

/// Objects that deserve a look, each at most once. It is closed until somebody works on them: a standby would fill it
/// with the names of everything that ever was.
#[derive(Debug)]
pub struct Inbox<K> {
    is_open: AtomicBool,
    waiting: Mutex<HashMap<K, Lane>>,
    grown: Notify,
}

/// One inbox for each kind that is looked after.
#[derive(Clone, Debug, Default)]
pub struct Inboxes {
    /// Engines.
    pub engines: Arc<Inbox<ObjectKey>>,
    /// Instances.
    pub instances: Arc<Inbox<ObjectKey>>,
    /// Engine classes.
    pub engine_classes: Arc<Inbox<ObjectKey>>,
}

impl<K> Default for Inbox<K> {
    fn default() -> Self {
        Self {
            is_open: AtomicBool::new(false),
            waiting: Mutex::default(),
            grown: Notify::new(),
        }
    }
}

impl<K: Eq + Hash> Inbox<K> {
    /// From here on, nothing that is added is lost. Whoever opens it adds what is there already.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    /// Adds an object. What is urgent stays urgent.
    pub fn add(&self, key: K, lane: Lane) {
        if !self.is_open.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .entry(key)
            .and_modify(|known| *known = (*known).min(lane))
            .or_insert(lane);
        drop(waiting);
        self.grown.notify_one();
    }

    /// Waits until there is something, and takes it all. Nothing is lost if this is cancelled.
    pub async fn take(&self) -> HashMap<K, Lane> {
        loop {
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if !waiting.is_empty() {
                return waiting;
            }
            self.grown.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_added_twice_is_there_once_and_as_urgent_as_it_gets() {
        let inbox = Inbox::default();
        inbox.add("early", Lane::Urgent);
        inbox.open();
        for (key, lane) in [("a", Lane::Urgent), ("a", Lane::Ordinary), ("b", Lane::Ordinary)] {
            inbox.add(key, lane);
        }
        let taken = inbox.take().await;
        assert_eq!(taken, HashMap::from([("a", Lane::Urgent), ("b", Lane::Ordinary)]));
    }
}
