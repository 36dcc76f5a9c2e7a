//! One watch stream: what it shows goes into a store, and how it fares into words.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::cache::{StreamState, Sync, with};
use super::guard::Guarded;
use super::kinds::Watched;
use super::malformed::News;
use super::store::{Change, Feed};
use super::trouble::{Incidents, Trouble};
use crate::settings::LabelSelector;

/// Hears of every change of one kind, after the store has it.
pub trait Listener<K>: Fn(&Change<K>) + Send + 'static {}

impl<K, F: Fn(&Change<K>) + Send + 'static> Listener<K> for F {}

/// The task behind one stream.
pub(super) struct Follower<K, L> {
    pub subject: String,
    pub feed: Feed<K>,
    pub listener: L,
    pub state: Arc<Mutex<StreamState>>,
    pub selector: LabelSelector,
    pub incidents: Incidents,
    pub failures: Counter,
    pub completed: Arc<watch::Sender<()>>,
}

impl<K: Watched, L: Listener<K>> Follower<K, L> {
    pub async fn follow(mut self, events: impl futures::Stream<Item = watcher::Result<Event<Guarded<K>>>>) {
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
