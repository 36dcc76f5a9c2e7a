//! The objects of one kind, as last seen by a watch.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use kube::runtime::reflector::Store;

use super::guard::Guarded;
use super::malformed::MalformedObjects;

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
pub(super) struct Stream<K>
where
    K: Resource + Clone + Debug + 'static,
    K::DynamicType: Hash + Eq + Clone + Debug,
{
    pub(super) namespace: Option<String>,
    pub(super) store: Store<Guarded<K>>,
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
pub struct Cache<K>
where
    K: Resource + Clone + Debug + 'static,
    K::DynamicType: Hash + Eq + Clone + Debug,
{
    pub(super) streams: Vec<Stream<K>>,
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

impl<K> CacheStatus for Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn readable(&self) -> usize {
        let stored: usize = self.streams.iter().map(|stream| stream.store.len()).sum();
        stored.saturating_sub(self.malformed())
    }

    fn malformed(&self) -> usize {
        self.streams
            .iter()
            .map(|stream| with(&stream.state, |state| state.malformed.len()))
            .sum()
    }

    fn missing(&self) -> Vec<String> {
        let describe = |stream: &Stream<K>| {
            let reason = match with(&stream.state, |state| state.sync.clone()) {
                Sync::Complete => return None,
                Sync::Listing => "the first list is not complete yet".to_owned(),
                Sync::HeldUp(reason) => reason,
            };
            Some(format!(
                "waiting for {}: {reason}",
                subject(&self.kind(), stream.namespace.as_deref())
            ))
        };
        self.streams.iter().filter_map(describe).collect()
    }
}

/// The kind and where it is watched, for messages.
pub(super) fn subject(kind: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{kind} in namespace {namespace}"),
        None => kind.to_owned(),
    }
}
