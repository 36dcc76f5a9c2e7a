//! The store of one kind together with the state of the watches that fill it.

use std::sync::{Arc, Mutex, PoisonError};

use super::malformed::MalformedObjects;
use super::store::Store;
use super::watched::Watched;

/// The progress of the first list of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyncState {
    /// In progress.
    Listing,
    /// It failed, for this reason, and is retried.
    Failed(String),
    /// Complete. Later failures do not change this: an outdated cache is still usable.
    Synced,
}

/// A watch of a namespace, or of the whole cluster.
#[derive(Debug)]
pub(super) struct Stream {
    /// What is watched and where, for messages.
    pub(super) subject: String,
    pub(super) state: Arc<Mutex<StreamState>>,
}

#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) sync: SyncState,
    pub(super) malformed: MalformedObjects,
}

/// Calls `action` with the state. A panic elsewhere does not make the state unusable.
pub(super) fn with<T>(state: &Mutex<StreamState>, action: impl FnOnce(&mut StreamState) -> T) -> T {
    action(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The objects of one kind in all watched namespaces.
#[derive(Debug)]
pub struct Cache<K> {
    pub(super) streams: Vec<Stream>,
    pub(super) store: Arc<Store<K>>,
}

impl<K> Cache<K> {
    /// The store, to be shared.
    #[must_use]
    pub fn store(&self) -> &Arc<Store<K>> {
        &self.store
    }
}

impl<K> std::ops::Deref for Cache<K> {
    type Target = Store<K>;

    fn deref(&self) -> &Store<K> {
        &self.store
    }
}

/// The status of a cache of any kind, for health checks and metrics.
pub trait CacheStatus {
    /// The kind, as users write it.
    fn kind(&self) -> String;
    /// The number of readable objects.
    fn readable(&self) -> usize;
    /// The number of objects that cannot be read.
    fn malformed(&self) -> usize;
    /// Why the cache is not synced yet: one line per stream.
    fn missing(&self) -> Vec<String>;
}

impl<K: Watched> CacheStatus for Cache<K> {
    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn readable(&self) -> usize {
        self.store.len().saturating_sub(self.malformed())
    }

    fn malformed(&self) -> usize {
        self.streams
            .iter()
            .map(|stream| with(&stream.state, |state| state.malformed.len()))
            .sum()
    }

    fn missing(&self) -> Vec<String> {
        let describe = |stream: &Stream| {
            let reason = match with(&stream.state, |state| state.sync.clone()) {
                SyncState::Synced => return None,
                SyncState::Listing => "the first list is not complete yet".to_owned(),
                SyncState::Failed(reason) => reason,
            };
            Some(format!("waiting for {}: {reason}", stream.subject))
        };
        self.streams.iter().filter_map(describe).collect()
    }
}
