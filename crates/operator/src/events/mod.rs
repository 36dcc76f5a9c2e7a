//! Kubernetes Events: what `kubectl describe` tells people.
//!
//! They are told beside the work and never hold it up: a queue of bounded length, a few requests at a time. What does not
//! fit is dropped; conditions carry everything that matters for longer.
//!
//! The recorder of the client library is not used: it takes two events of one reason within some minutes for the same
//! one and keeps the text of the first, which would hide what a second rollout is about.

mod apply;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::apply::Publisher;
use crate::error::{describe, shortened};

pub use firebolt_core::plan::{Event, Severity};

/// Events that wait to be published.
const WAITING: usize = 1024;
/// Requests at the same time.
const REQUESTS: usize = 8;
/// No event is worth waiting for longer.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// A warning whose wording keeps changing is told this often.
const REWORDED: Duration = Duration::from_mins(1);
/// Wordings of one reason that are recognised when they come back.
const REMEMBERED: usize = 8;
/// Reasons that are remembered.
const REASONS: usize = 32;
/// How long events that are left over may take when the process stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest text that the API takes, in bytes; cut by characters, each of up to four bytes, only beyond a quarter.
const LONGEST_NOTE: usize = 1024;

/// Takes events. Clones feed the same queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Sender<Telling>,
}

/// What is told, about whom, and when it happened.
#[derive(Debug)]
struct Telling {
    object: ObjectReference,
    event: Event,
    time: Timestamp,
}

/// Sends what the recorder has taken.
pub struct Sending {
    queue: Receiver<Telling>,
    publisher: Arc<Publisher>,
}

/// A recorder for the process called `instance`, and what sends its events.
#[must_use]
pub fn recorder(client: kube::Client, instance: &str) -> (Recorder, Sending) {
    let (sender, queue) = mpsc::channel(WAITING);
    let publisher = Arc::new(Publisher::new(client, instance));
    (Recorder { queue: sender }, Sending { queue, publisher })
}

impl Recorder {
    /// Tells something about an object.
    pub fn tell(&self, object: &ObjectReference, event: Event) {
        let telling = Telling {
            object: object.clone(),
            event,
            time: Timestamp::now(),
        };
        if let Err(full) = self.queue.try_send(telling) {
            let Telling { object, event, .. } = full.into_inner();
            let name = object.name.unwrap_or_default();
            debug!("an event was dropped, too many are waiting: {} of {name}", event.reason);
        }
    }
}

impl Recorder {
    /// Tells what is news about an object, to the log and to people, and lets `counted` hear of each.
    pub fn tell_news(&self, object: &ObjectReference, events: &[Event], told: &mut Told, counted: impl Fn(&Event)) {
        for event in events.iter().filter(|event| told.is_news(event)) {
            match event.severity {
                Severity::Normal => info!(reason = event.reason, "{}", event.message),
                Severity::Warning => warn!(reason = event.reason, "{}", event.message),
            }
            counted(event);
            self.tell(object, event.clone());
        }
    }
}

impl Sending {
    /// Publishes until `stop`, and then what is left, for a moment. Best effort: a failure is logged and not repeated.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut requests = JoinSet::new();
        while let Some(Some(telling)) = stop.run_until_cancelled(self.queue.recv()).await {
            requests.spawn(send(Arc::clone(&self.publisher), telling));
            while requests.len() >= REQUESTS && !stop.is_cancelled() {
                stop.run_until_cancelled(requests.join_next()).await;
            }
        }
        let rest = async {
            while let Ok(telling) = self.queue.try_recv() {
                send(Arc::clone(&self.publisher), telling).await;
            }
            while requests.join_next().await.is_some() {}
        };
        let _too_slow = timeout(LAST_WORDS, rest).await;
    }
}

async fn send(publisher: Arc<Publisher>, Telling { object, event, time }: Telling) {
    let failure = match timeout(LONGEST_REQUEST, publisher.publish(&object, &event, time)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => describe(&error),
        Err(_elapsed) => format!("no answer from the API server within {LONGEST_REQUEST:?}"),
    };
    let name = object.name.unwrap_or_default();
    debug!("cannot create event {} of {name}: {failure}", event.reason);
}

/// What was already told about one object. A warning is planned in every pass while its cause lasts; people want to
/// hear of it once, and not of each change in its wording.
#[derive(Debug, Default)]
pub struct Told {
    warnings: HashMap<String, Warnings>,
}

/// The warnings of one reason.
#[derive(Debug)]
struct Warnings {
    texts: Vec<String>,
    last: Instant,
}

impl Told {
    /// Whether the event is news.
    pub fn is_news(&mut self, event: &Event) -> bool {
        match event.severity {
            Severity::Normal => true,
            Severity::Warning => self.is_new_warning(&event.reason, without_count(&event.message)),
        }
    }

    fn is_new_warning(&mut self, reason: &str, text: &str) -> bool {
        let now = Instant::now();
        let Some(told) = self.warnings.get_mut(reason) else {
            let told = Warnings {
                texts: vec![text.to_owned()],
                last: now,
            };
            // Kubernetes knows few reasons. Whoever makes up more of them cannot fill our memory.
            if self.warnings.len() >= REASONS {
                self.warnings.clear();
            }
            self.warnings.insert(reason.to_owned(), told);
            return true;
        };
        let is_known = told.texts.iter().any(|known| known == text);
        // The very first change of wording is told at once: most often something was put right and something else is wrong.
        if is_known || (told.texts.len() > 1 && now - told.last < REWORDED) {
            return false;
        }
        told.texts.truncate(REMEMBERED - 1);
        told.texts.insert(0, text.to_owned());
        told.last = now;
        true
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

    fn warns(told: &mut Told, text: &str) -> bool {
        told.is_news(&event(Severity::Warning, text))
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_told_once_until_all_is_well_again() {
        let mut told = Told::default();
        assert!(warns(&mut told, "a"));
        assert!(!warns(&mut told, "a"));
        assert!(!warns(&mut told, "a (x12)"));
        assert!(warns(&mut told, "b (xyz)"));
        told.forget();
        assert!(warns(&mut told, "a"));
        assert!(told.is_news(&event(Severity::Normal, "c")) && told.is_news(&event(Severity::Normal, "c")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_whose_wording_keeps_changing_is_told_now_and_then() {
        let mut told = Told::default();
        assert!(warns(&mut told, "1 restart") && warns(&mut told, "2 restarts"));
        assert!(!warns(&mut told, "3 restarts"));
        assert!(!warns(&mut told, "1 restart"), "two that alternate are told once each");
        tokio::time::advance(REWORDED).await;
        assert!(warns(&mut told, "4 restarts"));
        for restarts in 0..100 {
            tokio::time::advance(REWORDED).await;
            assert!(warns(&mut told, &format!("{restarts} more")));
        }
        assert_eq!(told.warnings["R"].texts.len(), REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_that_somebody_makes_up_are_not_all_remembered() {
        let mut told = Told::default();
        for number in 0..1_000 {
            let reason = format!("R{number}");
            assert!(told.is_new_warning(&reason, "a"));
            assert!(!told.is_new_warning(&reason, "a"));
        }
        assert!(told.warnings.len() <= REASONS);
    }

    #[test]
    fn a_text_fits_whatever_it_is_made_of() {
        assert_eq!(note("short"), "short");
        assert!(note(&"€".repeat(5_000)).len() <= LONGEST_NOTE);
        assert!(note(&"x".repeat(5_000)).len() <= LONGEST_NOTE);
        assert_eq!(note(&"x".repeat(LONGEST_NOTE)).len(), LONGEST_NOTE);
    }
}
