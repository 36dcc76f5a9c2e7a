//! An object that is watched by name, with the failures of its watch.

use std::time::Duration;

use firebolt_runtime::informer::{FailureLog, WatchError};
use kube::runtime::watcher;
use tokio::time::Instant;
use tracing::{info, warn};

/// Limit on the backoff after a failure.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Whether the object exists.
enum Presence<K> {
    /// The watch has not delivered anything yet.
    Unknown,
    Absent,
    Present(K),
}

/// A watched object, as last observed or written.
pub(super) struct WatchedObject<K> {
    kind: &'static str,
    /// Empty if the kind is cluster-scoped.
    namespace: String,
    name: String,
    presence: Presence<K>,
    failure_log: FailureLog,
}

impl<K> WatchedObject<K> {
    pub(super) fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            presence: Presence::Unknown,
            failure_log: FailureLog::with_delays_up_to(MAX_BACKOFF),
        }
    }

    /// Records a watch event. A failure does not count as absence. Failures are logged once.
    pub(super) fn observe(&mut self, event: watcher::Result<Option<K>>) {
        let Self {
            kind, namespace, name, ..
        } = self;
        match event {
            Ok(object) => {
                self.presence = object.map_or(Presence::Absent, Presence::Present);
                if self.failure_log.recovered() {
                    info!(kind, namespace, name, "watch recovered");
                }
            }
            Err(error) => {
                let failure = WatchError::new(&error, false);
                if self.failure_log.should_log(&failure, Instant::now()) {
                    warn!(
                        kind,
                        namespace,
                        name,
                        "cannot watch: {}. Check that the API server is reachable, and that get, list and watch are granted \
                         (see deploy/rbac.yaml).",
                        failure.cause()
                    );
                }
            }
        }
    }

    /// Replaces the object by the result of a write.
    pub(super) fn set(&mut self, written: K) {
        self.presence = Presence::Present(written);
    }

    pub(super) fn get(&self) -> Option<&K> {
        match &self.presence {
            Presence::Present(object) => Some(object),
            Presence::Unknown | Presence::Absent => None,
        }
    }

    /// Whether the object is known not to exist.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.presence, Presence::Absent)
    }

    /// Whether the object was read at least once.
    pub(super) fn is_synced(&self) -> bool {
        !matches!(self.presence, Presence::Unknown)
    }
}
