//! Takes events from reconciles and sends them beside the reconciles.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::apply::{Publisher, Reporter};
use super::deduplication::EventDeduplicator;
use super::event::{Event, EventType};
use crate::error::describe;

/// Length of the queue of events to send.
const QUEUE_LENGTH: usize = 1024;
/// Requests at the same time.
const CONCURRENT_REQUESTS: usize = 8;
/// The timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sending the queued events may take when the process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Emits events. Clones share a queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Sender<Emitted>,
}

/// An event, the object it is about, and when it was emitted.
#[derive(Debug)]
struct Emitted {
    object: ObjectReference,
    event: Event,
    time: Timestamp,
}

/// Sends the events that recorders emit.
pub struct Broadcaster {
    queue: Receiver<Emitted>,
    publisher: Arc<Publisher>,
}

/// A recorder, and the broadcaster that sends its events in the name of `reporter`.
#[must_use]
pub fn recorder(client: kube::Client, reporter: Reporter) -> (Recorder, Broadcaster) {
    let (sender, queue) = mpsc::channel(QUEUE_LENGTH);
    let publisher = Arc::new(Publisher::new(client, reporter));
    (Recorder { queue: sender }, Broadcaster { queue, publisher })
}

impl Recorder {
    /// Emits an event about an object. Never blocks: if the queue is full, the event is dropped.
    pub(crate) fn emit(&self, object: &ObjectReference, event: Event) {
        let emitted = Emitted {
            object: object.clone(),
            event,
            time: Timestamp::now(),
        };
        if let Err(full) = self.queue.try_send(emitted) {
            full.into_inner().dropped("too many events are queued");
        }
    }

    /// Emits and logs the events that are new, and calls `emitted` for each. To be called within the span of a reconcile,
    /// from which the log lines have the name of the object.
    pub fn emit_new(
        &self,
        object: &ObjectReference,
        events: &[Event],
        known: &mut EventDeduplicator,
        emitted: impl Fn(&Event),
    ) {
        for event in events.iter().filter(|event| known.is_new(event)) {
            match event.type_ {
                EventType::Normal => info!(reason = event.reason, "{}", event.message),
                EventType::Warning => warn!(reason = event.reason, "{}", event.message),
            }
            emitted(event);
            self.emit(object, event.clone());
        }
    }
}

impl Emitted {
    fn dropped(&self, cause: &str) {
        debug!(
            kind = self.object.kind,
            namespace = self.object.namespace,
            name = self.object.name,
            reason = self.event.reason,
            "cannot create Event: {cause}"
        );
    }
}

impl Broadcaster {
    /// Sends events until `stop`, and then the queued ones, for a moment. Best effort: a failure is logged and not retried.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut requests = JoinSet::new();
        while let Some(Some(emitted)) = stop.run_until_cancelled(self.queue.recv()).await {
            requests.spawn(send(Arc::clone(&self.publisher), emitted));
            while requests.len() >= CONCURRENT_REQUESTS && !stop.is_cancelled() {
                stop.run_until_cancelled(requests.join_next()).await;
            }
        }
        let rest = async {
            while let Ok(emitted) = self.queue.try_recv() {
                send(Arc::clone(&self.publisher), emitted).await;
            }
            while requests.join_next().await.is_some() {}
        };
        let _too_slow = timeout(FLUSH_TIMEOUT, rest).await;
    }
}

async fn send(publisher: Arc<Publisher>, emitted: Emitted) {
    let request = publisher.publish(&emitted.object, &emitted.event, emitted.time);
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => emitted.dropped(&describe(&error)),
        Err(_elapsed) => emitted.dropped(&format!("no response from the API server within {REQUEST_TIMEOUT:?}")),
    }
}
