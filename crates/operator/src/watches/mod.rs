//! The caches that controllers stand on, kept current by watches, on leader and standby alike: the three kinds, and what
//! engines own.
//!
//! An object that cannot be read never stalls the others: it is kept aside, told once and counted. A watch that fails
//! is retried for ever with growing pauses.

mod cache;
mod guard;
mod kinds;
mod malformed;
mod store;
mod trouble;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

pub use self::cache::{Cache, CacheStatus, Sync};
use self::cache::{Stream, StreamState, subject, with};
pub use self::guard::{Guarded, Unreadable};
pub use self::kinds::Watched;
pub use self::malformed::{MalformedObjects, News};
use self::store::Feed;
pub use self::store::{Change, Store};
pub use self::trouble::{Incidents, Trouble};
use crate::backoff::RetryBackoff;
use crate::engine::watches as engine;
use crate::key::ObjectKey;
use crate::metrics::Metrics;
use crate::queue::Inbox;
use crate::settings::{LabelSelector, Settings};

/// The longest pause between two attempts. After the definitions are installed, readiness follows within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What `kubectl apply` keeps for itself: a second copy of the object that nobody here reads.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One cache per kind.
#[derive(Debug)]
pub struct Caches {
    /// Engines.
    pub engines: Cache<FireboltEngine>,
    /// Instances.
    pub instances: Cache<FireboltInstance>,
    /// Engine classes.
    pub engine_classes: Cache<FireboltEngineClass>,
    /// The StatefulSet of each generation.
    pub stateful_sets: Cache<StatefulSet>,
    /// The routing Service of each engine, and the headless one of each generation.
    pub services: Cache<Service>,
    /// The ConfigMap of each generation.
    pub config_maps: Cache<ConfigMap>,
    /// Pods of engines.
    pub pods: Cache<Pod>,
    /// Told whenever a first list is complete.
    completed: watch::Receiver<()>,
}

/// Where and how watches run.
struct Start<'a> {
    client: &'a Client,
    settings: &'a Settings,
    metrics: &'a Metrics,
    tasks: &'a mut JoinSet<()>,
    completed: Arc<watch::Sender<()>>,
}

impl Caches {
    /// Starts the watches as tasks of `tasks`. The caches fill from here on, and engines that something changed for are
    /// put into `inbox`.
    pub fn start(
        client: &Client,
        settings: &Settings,
        metrics: &Metrics,
        tasks: &mut JoinSet<()>,
        inbox: &Arc<Inbox<ObjectKey>>,
    ) -> Self {
        let (completed, completions) = watch::channel(());
        let mut start = Start {
            client,
            settings,
            metrics,
            tasks,
            completed: Arc::new(completed),
        };
        let engines = Arc::new(Store::default());
        Self {
            instances: start.kind(&Arc::default(), engine::of_instance(&engines, inbox)),
            engine_classes: start.kind(&Arc::default(), engine::of_engine_class(&engines, inbox)),
            stateful_sets: start.kind(&Arc::default(), engine::of_child(inbox)),
            services: start.kind(&Arc::default(), engine::of_child(inbox)),
            config_maps: start.kind(&Arc::default(), engine::of_child(inbox)),
            pods: start.kind(&Arc::default(), engine::of_child(inbox)),
            engines: start.kind(&engines, engine::of_engine(inbox)),
            completed: completions,
        }
    }

    /// Waits until every cache is complete.
    pub async fn synced(&self) {
        let mut completed = self.completed.clone();
        while self.all().iter().any(|cache| !cache.missing().is_empty()) {
            if completed.changed().await.is_err() {
                // The watches have ended, and with them the process.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The caches in a fixed order, for health and metrics.
    #[must_use]
    pub fn all(&self) -> [&(dyn CacheStatus + Send + std::marker::Sync); 7] {
        [
            &self.engines,
            &self.instances,
            &self.engine_classes,
            &self.stateful_sets,
            &self.services,
            &self.config_maps,
            &self.pods,
        ]
    }
}

impl Start<'_> {
    fn kind<K: Watched>(&mut self, store: &Arc<Store<K>>, listener: impl Listener<K> + Clone) -> Cache<K> {
        let failures = self.metrics.watch_failures(&K::kind(&()));
        let config = Config {
            label_selector: K::selector(self.settings),
            ..Config::default()
        };
        let streams = self.settings.scope.streams().map(|namespace| {
            let api: Api<Guarded<K>> = match namespace {
                Some(namespace) => Api::namespaced(self.client.clone(), namespace),
                None => Api::all(self.client.clone()),
            };
            let state = StreamState {
                sync: Sync::Listing,
                malformed: MalformedObjects::default(),
            };
            let state = Arc::new(Mutex::new(state));
            let follower = Follower {
                subject: subject(&K::kind(&()), namespace),
                feed: Feed::new(Arc::clone(store), namespace),
                listener: listener.clone(),
                state: Arc::clone(&state),
                selector: self.settings.selector.clone(),
                incidents: Incidents::with_pauses_up_to(LONGEST_PAUSE),
                failures: failures.clone(),
                completed: Arc::clone(&self.completed),
            };
            let events = watcher(api, config.clone())
                .backoff(RetryBackoff::up_to(LONGEST_PAUSE))
                .modify(prune);
            self.tasks.spawn(follower.follow(events));
            Stream {
                namespace: namespace.map(str::to_owned),
                state,
            }
        });
        Cache {
            streams: streams.collect(),
            store: Arc::clone(store),
        }
    }
}

/// Hears of every change of one kind, after the store has it.
pub trait Listener<K>: Fn(&Change<K>) + Send + 'static {}

impl<K, F: Fn(&Change<K>) + Send + 'static> Listener<K> for F {}

fn prune<K: Watched>(object: &mut Guarded<K>) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
    if let Ok(object) = &mut object.0 {
        object.prune();
    }
}

/// The task behind one stream.
struct Follower<K, L> {
    subject: String,
    feed: Feed<K>,
    listener: L,
    state: Arc<Mutex<StreamState>>,
    selector: LabelSelector,
    incidents: Incidents,
    failures: Counter,
    completed: Arc<watch::Sender<()>>,
}

impl<K: Watched, L: Listener<K>> Follower<K, L> {
    async fn follow(mut self, events: impl futures::Stream<Item = watcher::Result<Event<Guarded<K>>>>) {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn take(&mut self, event: Event<Guarded<K>>) {
        if let Some(news) = with(&self.state, |state| state.malformed.observe(&event)) {
            Self::tell(news);
        }
        let (is_start, is_complete) = match event {
            // The start of an attempt, not yet a success.
            Event::Init => (true, false),
            Event::InitDone => (false, true),
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => (false, false),
        };
        self.feed.take(event).iter().for_each(&self.listener);
        if is_complete {
            with(&self.state, |state| state.sync = Sync::Complete);
            self.completed.send_replace(());
        }
        if !is_start {
            self.recovered();
        }
    }

    fn recovered(&mut self) {
        if self.incidents.end() {
            info!("can watch {} now", self.subject);
        }
    }

    fn fail(&mut self, error: &watcher::Error) {
        self.failures.inc();
        let trouble = Trouble::of(error, &self.selector);
        let reason = trouble.explain();
        if self.incidents.is_news(&trouble, Instant::now()) {
            warn!("cannot watch {}: {reason}", self.subject);
        } else {
            debug!("cannot watch {}: {reason}", self.subject);
        }
        with(&self.state, |state| {
            if state.sync != Sync::Complete {
                state.sync = Sync::HeldUp(reason);
            }
        });
    }

    fn tell(news: News) {
        let kind = K::kind(&());
        match news {
            News::Malformed { object, error } => warn!(
                "{kind} {object} cannot be read and is left alone: {error}; correct it with `kubectl edit`, or delete it"
            ),
            News::Fixed { object } => info!("{kind} {object} can be read again"),
        }
    }
}
