//! The Secrets with the credentials of databases. Secrets of users have no label of the operator, and its own may be
//! restored from a backup without one: so each is watched by its name, as long as an instance references it.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firebolt_runtime::ObjectKey;
use firebolt_runtime::backoff::WatchBackoff;
use firebolt_runtime::informer::{FailureLog, Guarded, WatchError};
use firebolt_runtime::queue::{PendingSet, Priority};
use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::secret::KnownSecret;
use super::watch_error::explain;

/// The longest delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What is known of the Secret that an instance references.
#[derive(Clone, Debug)]
pub enum CachedCredentials {
    /// Nothing: it has not been read yet, or cannot be read for this reason.
    Unknown(Option<String>),
    /// It does not exist.
    Missing,
    /// It exists.
    Found(Arc<KnownSecret>),
}

impl Default for CachedCredentials {
    fn default() -> Self {
        Self::Unknown(None)
    }
}

/// The Secrets that instances reference, each as last seen by a watch of its own.
pub struct WatchedCredentials {
    client: Client,
    pending: Arc<PendingSet<ObjectKey>>,
    failures: Counter,
    watches: Mutex<HashMap<ObjectKey, SecretWatch>>,
}

impl fmt::Debug for WatchedCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WatchedCredentials")
            .field(&*self.lock())
            .finish()
    }
}

/// The watch for one instance. It ends when it is dropped.
#[derive(Debug)]
struct SecretWatch {
    uid: String,
    secret: String,
    state: Arc<Mutex<CachedCredentials>>,
    task: AbortOnDropHandle<()>,
}

impl WatchedCredentials {
    /// Watches nothing yet. Instances whose Secret changes become `pending`.
    pub(crate) fn new(client: Client, pending: Arc<PendingSet<ObjectKey>>, failures: Counter) -> Self {
        Self {
            client,
            pending,
            failures,
            watches: Mutex::default(),
        }
    }

    /// Watches this Secret for the instance with this key and UID, instead of any other. Does not block, and does
    /// nothing if the Secret is watched already. None ends the watch.
    pub fn watch(&self, instance: &ObjectKey, uid: &str, secret: Option<&str>) {
        let mut by_instance = self.lock();
        let Some(secret) = secret else {
            by_instance.remove(instance);
            return;
        };
        // A task ends only because of a bug; then it is restarted.
        let is_watched = |known: &SecretWatch| known.uid == uid && known.secret == secret && !known.task.is_finished();
        if by_instance.get(instance).is_some_and(is_watched) {
            return;
        }
        let state = Arc::new(Mutex::new(CachedCredentials::default()));
        let task = SecretWatcher {
            secret: ObjectKey::new(&instance.namespace, secret),
            instance: instance.clone(),
            uid: uid.to_owned(),
            state: Arc::clone(&state),
            pending: Arc::clone(&self.pending),
            failure_log: FailureLog::with_delays_up_to(LONGEST_DELAY),
            failures: self.failures.clone(),
        };
        let api = Api::namespaced(self.client.clone(), &instance.namespace);
        let watch = SecretWatch {
            uid: uid.to_owned(),
            secret: secret.to_owned(),
            state,
            task: AbortOnDropHandle::new(tokio::spawn(task.run(api))),
        };
        by_instance.insert(instance.clone(), watch);
    }

    /// What is known of the Secret that the instance references.
    #[must_use]
    pub fn get(&self, instance: &ObjectKey) -> CachedCredentials {
        match self.lock().get(instance) {
            Some(watch) => locked(&watch.state).clone(),
            None => CachedCredentials::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, SecretWatch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn locked(state: &Mutex<CachedCredentials>) -> MutexGuard<'_, CachedCredentials> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task behind one watch.
struct SecretWatcher {
    secret: ObjectKey,
    instance: ObjectKey,
    uid: String,
    state: Arc<Mutex<CachedCredentials>>,
    pending: Arc<PendingSet<ObjectKey>>,
    failure_log: FailureLog,
    failures: Counter,
}

impl SecretWatcher {
    /// A watch that fails is started over with a list: a watch that is resumed sends nothing until the Secret changes,
    /// so its recovery could not be detected.
    async fn run(mut self, api: Api<Guarded<KnownSecret>>) {
        let config = Config::default().fields(&format!("metadata.name={}", self.secret.name));
        let mut delays = WatchBackoff::up_to(LONGEST_DELAY);
        loop {
            let uid = self.uid.clone();
            let seal = move |object: &mut Guarded<KnownSecret>| {
                object.managed_fields_mut().clear();
                if let Ok(secret) = &mut object.0 {
                    secret.seal(&uid);
                }
            };
            let mut listed = None;
            let mut events = pin!(watcher(api.clone(), config.clone()).modify(seal));
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.handle(event, &mut listed),
                    Err(error) => {
                        self.fail(&WatchError::new(&error, false));
                        break;
                    }
                }
            }
            sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
        }
    }

    fn handle(&mut self, event: Event<Guarded<KnownSecret>>, listed: &mut Option<Guarded<KnownSecret>>) {
        let secret = match event {
            Event::Init => {
                *listed = None;
                return;
            }
            Event::InitApply(object) => {
                *listed = Some(object);
                return;
            }
            Event::InitDone => listed.take(),
            Event::Apply(object) => Some(object),
            Event::Delete(_) => None,
        };
        if self.failure_log.recovered() {
            info!(
                kind = "Secret",
                namespace = self.secret.namespace,
                name = self.secret.name,
                "watch recovered"
            );
        }
        self.set(match secret {
            None => CachedCredentials::Missing,
            Some(Guarded(Ok(secret))) => CachedCredentials::Found(Arc::new(secret)),
            Some(Guarded(Err(unreadable))) => CachedCredentials::Unknown(Some(unreadable.error)),
        });
    }

    /// If the API server is only unreachable, what was known is kept; if it rejects the watch, nothing is known any
    /// more.
    fn fail(&mut self, error: &WatchError) {
        self.failures.inc();
        let reason = explain(error);
        let ObjectKey { namespace, name } = &self.secret;
        if self.failure_log.should_log(error, Instant::now()) {
            warn!(
                kind = "Secret",
                namespace, name, "cannot watch Secret {namespace}/{name}: {reason}"
            );
        } else {
            debug!(
                kind = "Secret",
                namespace, name, "cannot watch Secret {namespace}/{name}: {reason}"
            );
        }
        let is_rejected = match error {
            WatchError::Forbidden(_) | WatchError::Unauthorized(_) => true,
            WatchError::NotFound | WatchError::BadSelector(_) | WatchError::Expired | WatchError::Other(_) => false,
        };
        let is_new = match &*locked(&self.state) {
            CachedCredentials::Unknown(known) => known.as_ref() != Some(&reason),
            CachedCredentials::Missing | CachedCredentials::Found(_) => is_rejected,
        };
        if is_new {
            self.set(CachedCredentials::Unknown(Some(reason)));
        }
    }

    fn set(&self, credentials: CachedCredentials) {
        *locked(&self.state) = credentials;
        self.pending.add(self.instance.clone(), Priority::Normal);
    }
}
