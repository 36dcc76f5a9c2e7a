//! Kubernetes Events: what `kubectl describe` tells people.
//!
//! They are told beside the work and never hold it up: a queue of bounded length, one request at a time. What does not
//! fit is dropped and counted in the log; conditions carry everything that matters for longer.
//!
//! The recorder of the client library is not used: it takes two events of one reason within some minutes for the same
//! one and keeps the text of the first, which would hide what a second rollout is about.

mod apply;

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::apply::Publisher;
use crate::error::{describe, shortened};

pub use firebolt_core::plan::{Event, Severity};

/// Events that wait to be published.
const WAITING: usize = 1024;
/// How long events that are left over may take when the process stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest text that the API takes, in bytes; cut by characters, each of up to four bytes, only beyond a quarter.
const LONGEST_NOTE: usize = 1024;

/// Takes events. Clones feed the same queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Sender<(ObjectReference, Event)>,
}

/// Sends what the recorder has taken.
pub struct Sending {
    queue: Receiver<(ObjectReference, Event)>,
    publisher: Publisher,
}

/// A recorder for the process called `instance`, and what sends its events.
#[must_use]
pub fn recorder(client: kube::Client, instance: &str) -> (Recorder, Sending) {
    let (sender, queue) = mpsc::channel(WAITING);
    let publisher = Publisher::new(client, instance);
    (Recorder { queue: sender }, Sending { queue, publisher })
}

impl Recorder {
    /// Tells something about an object.
    pub fn tell(&self, object: &ObjectReference, event: Event) {
        let reason = event.reason.clone();
        if self.queue.try_send((object.clone(), event)).is_err() {
            let name = object.name.as_deref().unwrap_or_default();
            warn!("an event was dropped, too many are waiting: {reason} of {name}");
        }
    }
}

impl Sending {
    /// Publishes until `stop`, and then what is left, for a moment. Best effort: a failure is logged and not repeated.
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(Some((object, event))) = stop.run_until_cancelled(self.queue.recv()).await {
            self.send(&object, &event).await;
        }
        let rest = async {
            while let Ok((object, event)) = self.queue.try_recv() {
                self.send(&object, &event).await;
            }
        };
        let _too_slow = tokio::time::timeout(LAST_WORDS, rest).await;
    }

    async fn send(&self, object: &ObjectReference, event: &Event) {
        if let Err(error) = self.publisher.publish(object, event).await {
            debug!(
                "cannot publish an event of {}: {}",
                object.name.as_deref().unwrap_or_default(),
                describe(&error)
            );
        }
    }
}

/// What was already told about one object. A warning is planned in every pass while its cause lasts; people want to
/// hear of it once.
#[derive(Debug, Default)]
pub struct Told {
    warnings: HashMap<String, String>,
}

impl Told {
    /// Whether the event is news.
    pub fn is_news(&mut self, event: &Event) -> bool {
        match event.severity {
            Severity::Normal => true,
            Severity::Warning => {
                let text = without_count(&event.message).to_owned();
                let before = self.warnings.insert(event.reason.clone(), text.clone());
                before != Some(text)
            }
        }
    }

    /// The object is well again: whatever comes back is news.
    pub fn forget(&mut self) {
        self.warnings.clear();
    }
}

/// How often Kubernetes has said something is no news.
fn without_count(message: &str) -> &str {
    let Some((text, count)) = message.rsplit_once(" (x") else {
        return message;
    };
    let is_count = count
        .strip_suffix(')')
        .is_some_and(|count| count.parse::<u32>().is_ok());
    if is_count { text } else { message }
}

fn note(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    shortened(message, LONGEST_NOTE / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(severity: Severity, message: &str) -> Event {
        Event {
            severity,
            reason: "R".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_warning_is_told_once_until_it_says_something_else() {
        let mut told = Told::default();
        assert!(told.is_news(&event(Severity::Warning, "a")));
        assert!(!told.is_news(&event(Severity::Warning, "a")));
        assert!(told.is_news(&event(Severity::Warning, "b")));
        told.forget();
        assert!(told.is_news(&event(Severity::Warning, "b")));
        assert!(!told.is_news(&event(Severity::Warning, "b (x12)")));
        assert!(told.is_news(&event(Severity::Warning, "b (xyz)")));
        assert!(told.is_news(&event(Severity::Normal, "c")) && told.is_news(&event(Severity::Normal, "c")));
    }

    #[test]
    fn a_text_fits_whatever_it_is_made_of() {
        assert_eq!(note("short"), "short");
        assert!(note(&"€".repeat(5_000)).len() <= LONGEST_NOTE);
        assert!(note(&"x".repeat(5_000)).len() <= LONGEST_NOTE);
        assert_eq!(note(&"x".repeat(LONGEST_NOTE)).len(), LONGEST_NOTE);
    }
}
