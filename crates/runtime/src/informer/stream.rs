//! Starts the watches of one kind: each event goes into the store and to the event handler.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::cache::{Cache, Stream, StreamState, SyncState, with};
use super::guarded::Guarded;
use super::malformed::{MalformedChange, MalformedObjects};
use super::store::{Change, Store};
use super::store_writer::StoreWriter;
use super::watch_error::{FailureLog, WatchError};
use super::watched::Watched;
use crate::backoff::WatchBackoff;

/// Is called with every change of one kind, after it is in the store.
pub trait EventHandler<K>: Fn(&Change<K>) + Send + 'static {}

impl<K, F: Fn(&Change<K>) + Send + 'static> EventHandler<K> for F {}

/// What is watched, and where it goes.
pub struct InformerOptions<'a, K, H, P> {
    /// The client.
    pub client: &'a Client,
    /// The namespaces to watch, each by a stream of its own; none stands for the whole cluster.
    pub namespaces: Vec<Option<&'a str>>,
    /// Which objects are watched; none for all.
    pub label_selector: Option<String>,
    /// Whether a user wrote the selector, so that an API server which rejects the request may do so because of it.
    pub has_user_selector: bool,
    /// Where the objects go.
    pub store: Arc<Store<K>>,
    /// Is called for every change.
    pub handler: H,
    /// Drops the unused parts of an object before it is stored.
    pub prune: P,
    /// What is watched, for messages: the kind, and whose objects.
    pub subject: String,
    /// What is wrong with a failed watch and what to do about it.
    pub explain: fn(&WatchError) -> String,
    /// The longest delay between two attempts.
    pub longest_delay: Duration,
    /// Counts failed attempts.
    pub failures: Counter,
    /// Is notified when a first list is complete.
    pub synced: Arc<watch::Sender<()>>,
}

/// Starts the watches as tasks of `tasks`. The cache fills from here on.
pub fn start<K: Watched, H, P>(options: InformerOptions<'_, K, H, P>, tasks: &mut JoinSet<()>) -> Cache<K>
where
    H: EventHandler<K> + Clone,
    P: Fn(&mut Guarded<K>) + Clone + Send + 'static,
{
    let config = Config {
        label_selector: options.label_selector,
        ..Config::default()
    };
    let streams = options.namespaces.into_iter().map(|namespace| {
        let (api, subject): (Api<Guarded<K>>, String) = match namespace {
            Some(namespace) => (
                Api::namespaced(options.client.clone(), namespace),
                format!("{} in namespace {namespace}", options.subject),
            ),
            None => (Api::all(options.client.clone()), options.subject.clone()),
        };
        let state = Arc::new(Mutex::new(StreamState {
            sync: SyncState::Listing,
            malformed: MalformedObjects::default(),
        }));
        let informer = Informer {
            subject: subject.clone(),
            writer: StoreWriter::new(Arc::clone(&options.store), namespace),
            handler: options.handler.clone(),
            state: Arc::clone(&state),
            has_user_selector: options.has_user_selector,
            explain: options.explain,
            failure_log: FailureLog::with_delays_up_to(options.longest_delay),
            failures: options.failures.clone(),
            synced: Arc::clone(&options.synced),
        };
        let events = watcher(api, config.clone())
            .backoff(WatchBackoff::up_to(options.longest_delay))
            .modify(options.prune.clone());
        tasks.spawn(informer.run(events));
        Stream { subject, state }
    });
    Cache {
        streams: streams.collect(),
        store: Arc::clone(&options.store),
    }
}

/// The task behind one stream.
struct Informer<K, H> {
    subject: String,
    writer: StoreWriter<K>,
    handler: H,
    state: Arc<Mutex<StreamState>>,
    has_user_selector: bool,
    explain: fn(&WatchError) -> String,
    failure_log: FailureLog,
    failures: Counter,
    synced: Arc<watch::Sender<()>>,
}

impl<K: Watched, H: EventHandler<K>> Informer<K, H> {
    async fn run(mut self, events: impl futures::Stream<Item = watcher::Result<Event<Guarded<K>>>>) {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.handle(event),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn handle(&mut self, event: Event<Guarded<K>>) {
        if let Some(change) = with(&self.state, |state| state.malformed.observe(&event)) {
            log_malformed::<K>(&change);
        }
        let (is_start, is_complete) = match event {
            // The start of an attempt, not yet a success.
            Event::Init => (true, false),
            Event::InitDone => (false, true),
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => (false, false),
        };
        self.writer.write(event).iter().for_each(&self.handler);
        if is_complete {
            with(&self.state, |state| state.sync = SyncState::Synced);
            self.synced.send_replace(());
        }
        if !is_start && self.failure_log.recovered() {
            info!(kind = %K::kind(&()), "watch of {} recovered", self.subject);
        }
    }

    fn fail(&mut self, error: &watcher::Error) {
        self.failures.inc();
        let error = WatchError::new(error, self.has_user_selector);
        let reason = (self.explain)(&error);
        if self.failure_log.should_log(&error, Instant::now()) {
            warn!(kind = %K::kind(&()), "cannot watch {}: {reason}", self.subject);
        } else {
            debug!(kind = %K::kind(&()), "cannot watch {}: {reason}", self.subject);
        }
        with(&self.state, |state| {
            if state.sync != SyncState::Synced {
                state.sync = SyncState::Failed(reason);
            }
        });
    }
}

fn log_malformed<K: Watched>(change: &MalformedChange) {
    let kind = K::kind(&());
    match change {
        MalformedChange::Malformed { object, error } => warn!(
            %kind,
            namespace = object.namespace,
            name = object.name,
            "{kind} {object} cannot be parsed and is not reconciled: {error}; correct it with `kubectl edit`, or delete it"
        ),
        MalformedChange::Fixed { object } => {
            info!(%kind, namespace = object.namespace, name = object.name, "{kind} {object} can be parsed again");
        }
    }
}
