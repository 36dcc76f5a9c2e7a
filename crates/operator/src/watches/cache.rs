//! The objects of one kind, as last seen by a watch.

use std::sync::{Arc, Mutex, PoisonError};

use super::family::Family;
use super::kinds::Watched;
use super::malformed::MalformedObjects;
use super::store::Store;

/// How far the first list of a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Under way.
    Listing,
    /// Held up, and why.
    HeldUp(String),
    /// Complete. Later failures do not take this back: a cache that is a little old still serves.
    Complete,
}

/// One watch stream: a namespace, or the whole cluster.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) namespace: Option<String>,
    pub(super) state: Arc<Mutex<StreamState>>,
}

/// What the stream's task tells about itself.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) sync: Sync,
    pub(super) malformed: MalformedObjects,
}

/// Runs `action` on the state. A panic elsewhere leaves it readable.
pub(super) fn with<T>(state: &Mutex<StreamState>, action: impl FnOnce(&mut StreamState) -> T) -> T {
    action(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The objects of one kind in all watched namespaces. Reads never reach the API server and may be a little old.
#[derive(Debug)]
pub struct Cache<K> {
    pub(super) family: Family,
    pub(super) streams: Vec<Stream>,
    pub(super) store: Arc<Store<K>>,
}

impl<K> std::ops::Deref for Cache<K> {
    type Target = Store<K>;

    fn deref(&self) -> &Store<K> {
        &self.store
    }
}

/// The cache as far as health and metrics look at it, whatever its kind.
pub trait CacheStatus {
    /// The kind, as users write it.
    fn kind(&self) -> String;
    /// How many objects could be read.
    fn readable(&self) -> usize;
    /// How many objects could not be read.
    fn malformed(&self) -> usize;
    /// What is still missing before the cache can be used: one line per stream.
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
                Sync::Complete => return None,
                Sync::Listing => "the first list is not complete yet".to_owned(),
                Sync::HeldUp(reason) => reason,
            };
            Some(format!(
                "waiting for {}: {reason}",
                self.family.describe(&self.kind(), stream.namespace.as_deref())
            ))
        };
        self.streams.iter().filter_map(describe).collect()
    }
}
