//! The caches that controllers stand on: the three kinds, kept current by watches, on leader and standby alike.
//!
//! An object that cannot be read never stalls the others: it is kept aside, told once and counted. A watch that fails
//! is retried for ever with growing pauses.

mod cache;
mod guard;
mod malformed;
mod trouble;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

pub use self::cache::{Cache, CacheStatus, Sync};
use self::cache::{Stream, StreamState, subject, with};
pub use self::guard::{Guarded, Unreadable};
pub use self::malformed::{MalformedObjects, News};
pub use self::trouble::{Incidents, Trouble};
use crate::backoff::RetryBackoff;
use crate::metrics::Metrics;
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
}

impl Caches {
    /// Starts the watches as tasks of `tasks`. The caches fill from here on.
    pub fn start(client: &Client, settings: &Settings, metrics: &Metrics, tasks: &mut JoinSet<()>) -> Self {
        Self {
            engines: start_kind(client, settings, metrics, tasks),
            instances: start_kind(client, settings, metrics, tasks),
            engine_classes: start_kind(client, settings, metrics, tasks),
        }
    }

    /// The caches in a fixed order, for health and metrics.
    #[must_use]
    pub fn all(&self) -> [&(dyn CacheStatus + Send + std::marker::Sync); 3] {
        [&self.engines, &self.instances, &self.engine_classes]
    }
}

fn start_kind<K>(client: &Client, settings: &Settings, metrics: &Metrics, tasks: &mut JoinSet<()>) -> Cache<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    K: Send + std::marker::Sync + 'static,
{
    let failures = metrics.watch_failures(&K::kind(&()));
    let config = Config {
        label_selector: settings.selector.to_parameter(),
        ..Config::default()
    };
    let start_stream = |namespace: Option<&str>| {
        let api: Api<Guarded<K>> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let writer = Writer::<Guarded<K>>::default();
        let store = writer.as_reader();
        let state = StreamState {
            sync: Sync::Listing,
            malformed: MalformedObjects::default(),
        };
        let state = Arc::new(Mutex::new(state));
        let follower = Follower {
            subject: subject(&K::kind(&()), namespace),
            writer,
            state: Arc::clone(&state),
            selector: settings.selector.clone(),
            incidents: Incidents::with_pauses_up_to(LONGEST_PAUSE),
            failures: failures.clone(),
        };
        let events = watcher(api, config.clone())
            .backoff(RetryBackoff::up_to(LONGEST_PAUSE))
            .modify(prune);
        tasks.spawn(follower.follow(events));
        Stream {
            namespace: namespace.map(str::to_owned),
            store,
            state,
        }
    };
    Cache {
        streams: settings.scope.streams().map(start_stream).collect(),
    }
}

/// Drops what is large and never read.
fn prune<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
}

/// The task behind one stream.
struct Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    subject: String,
    writer: Writer<Guarded<K>>,
    state: Arc<Mutex<StreamState>>,
    selector: LabelSelector,
    incidents: Incidents,
    failures: Counter,
}

impl<K> Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    async fn follow(mut self, events: impl futures::Stream<Item = watcher::Result<Event<Guarded<K>>>>) {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(&event),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn take(&mut self, event: &Event<Guarded<K>>) {
        self.writer.apply_watcher_event(event);
        if let Some(news) = with(&self.state, |state| state.malformed.observe(event)) {
            Self::tell(news);
        }
        match event {
            // The start of an attempt, not yet a success.
            Event::Init => {}
            Event::InitDone => {
                with(&self.state, |state| state.sync = Sync::Complete);
                self.recovered();
            }
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => self.recovered(),
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
