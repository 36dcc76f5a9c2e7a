//! The Secrets with the credentials of databases. Those of users carry no label of ours, and ours may be restored from a
//! backup without one: so each is watched by its name, for the instance that reads it and as long as it does.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::guard::Guarded;
use super::secrets::KnownSecret;
use super::trouble::{Incidents, Trouble};
use crate::backoff::RetryBackoff;
use crate::key::ObjectKey;
use crate::queue::{Inbox, Lane};
use crate::settings::LabelSelector;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What is known of the Secret that an instance names.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Nothing: it has not been read yet, or cannot be read for this reason.
    Unknown(Option<String>),
    /// That there is none.
    Missing,
    /// This.
    Found(Arc<KnownSecret>),
}

impl Default for Credentials {
    fn default() -> Self {
        Self::Unknown(None)
    }
}

/// The Secrets that instances read, each as last seen by a watch of its own.
pub struct FollowedCredentials {
    client: Client,
    inbox: Arc<Inbox<ObjectKey>>,
    failures: Counter,
    followed: Mutex<HashMap<ObjectKey, Followed>>,
}

impl fmt::Debug for FollowedCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("FollowedCredentials")
            .field(&*self.lock())
            .finish()
    }
}

/// A watch for one instance. Dropping it ends it.
#[derive(Debug)]
struct Followed {
    uid: String,
    secret: String,
    state: Arc<Mutex<Credentials>>,
    task: AbortOnDropHandle<()>,
}

impl FollowedCredentials {
    /// Watches nothing yet. Instances whose Secret changed are put into `inbox`.
    pub(super) fn new(client: Client, inbox: Arc<Inbox<ObjectKey>>, failures: Counter) -> Self {
        Self {
            client,
            inbox,
            failures,
            followed: Mutex::default(),
        }
    }

    /// From here on, the Secret that the instance of this name and UID names is watched, and no other for it. Does not
    /// wait for an answer, and does nothing if that is so already.
    pub fn follow(&self, instance: &ObjectKey, uid: &str, secret: Option<&str>) {
        let mut all = self.lock();
        let Some(secret) = secret else {
            all.remove(instance);
            return;
        };
        // A task that ended by itself, which only a bug can do, is not taken for one that watches.
        let is_followed = |known: &Followed| known.uid == uid && known.secret == secret && !known.task.is_finished();
        if all.get(instance).is_some_and(is_followed) {
            return;
        }
        let state = Arc::new(Mutex::new(Credentials::default()));
        let task = Follower {
            secret: ObjectKey::new(&instance.namespace, secret),
            instance: instance.clone(),
            uid: uid.to_owned(),
            state: Arc::clone(&state),
            inbox: Arc::clone(&self.inbox),
            incidents: Incidents::with_pauses_up_to(LONGEST_PAUSE),
            failures: self.failures.clone(),
        };
        let api = Api::namespaced(self.client.clone(), &instance.namespace);
        let known = Followed {
            uid: uid.to_owned(),
            secret: secret.to_owned(),
            state,
            task: AbortOnDropHandle::new(tokio::spawn(task.follow(api))),
        };
        all.insert(instance.clone(), known);
    }

    /// What is known of the Secret that the instance names.
    #[must_use]
    pub fn get(&self, instance: &ObjectKey) -> Credentials {
        match self.lock().get(instance) {
            Some(followed) => locked(&followed.state).clone(),
            None => Credentials::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn locked(state: &Mutex<Credentials>) -> MutexGuard<'_, Credentials> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task behind one watch.
struct Follower {
    secret: ObjectKey,
    instance: ObjectKey,
    uid: String,
    state: Arc<Mutex<Credentials>>,
    inbox: Arc<Inbox<ObjectKey>>,
    incidents: Incidents,
    failures: Counter,
}

impl Follower {
    /// A watch that fails is started over with a list: resumed where it broke, it would be silent as long as nothing
    /// changes, and nobody could tell that it works again.
    async fn follow(mut self, api: Api<Guarded<KnownSecret>>) {
        let config = Config::default().fields(&format!("metadata.name={}", self.secret.name));
        let mut pauses = RetryBackoff::up_to(LONGEST_PAUSE);
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
                    Ok(event) => self.take(event, &mut listed),
                    Err(error) => {
                        self.fail(&Trouble::of(&error, &LabelSelector::default()));
                        break;
                    }
                }
            }
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
    }

    fn take(&mut self, event: Event<Guarded<KnownSecret>>, listed: &mut Option<Guarded<KnownSecret>>) {
        let seen = match event {
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
        if self.incidents.end() {
            info!("can watch Secret {} now", self.secret);
        }
        self.set(match seen {
            None => Credentials::Missing,
            Some(Guarded(Ok(secret))) => Credentials::Found(Arc::new(secret)),
            Some(Guarded(Err(unreadable))) => Credentials::Unknown(Some(unreadable.error)),
        });
    }

    /// What was known stays if the API server is only out of reach; if it does not let us, nothing is known any more.
    fn fail(&mut self, trouble: &Trouble) {
        self.failures.inc();
        let reason = trouble.explain();
        if self.incidents.is_news(trouble, Instant::now()) {
            warn!("cannot watch Secret {}: {reason}", self.secret);
        } else {
            debug!("cannot watch Secret {}: {reason}", self.secret);
        }
        let voids = match trouble {
            Trouble::Forbidden(_) | Trouble::Unauthorized(_) => true,
            Trouble::NoDefinition | Trouble::BadSelector(_) | Trouble::Expired | Trouble::Other(_) => false,
        };
        let is_news = match &*locked(&self.state) {
            Credentials::Unknown(known) => known.as_ref() != Some(&reason),
            Credentials::Missing | Credentials::Found(_) => voids,
        };
        if is_news {
            self.set(Credentials::Unknown(Some(reason)));
        }
    }

    fn set(&self, credentials: Credentials) {
        *locked(&self.state) = credentials;
        self.inbox.add(self.instance.clone(), Lane::Ordinary);
    }
}
