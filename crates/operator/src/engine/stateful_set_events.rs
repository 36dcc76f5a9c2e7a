//! The Warning events of a StatefulSet, which say why it lacks pods.

use firebolt_core::plan::engine::{EVENTS_INTERVAL, StatefulSetWarning};
use firebolt_process::error::shortened;
use firebolt_runtime::error::describe;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::debug;

/// How long the list may hold up the reconcile, which has more important things to do.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// Kubernetes merges events that repeat themselves; a StatefulSet has few different ones.
const MOST_EVENTS: u32 = 32;

/// The longest texts that are copied from an event, which anybody may have written.
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_REASON: usize = 100;

/// The events of one StatefulSet, as last listed.
#[derive(Debug, Default)]
pub(super) struct StatefulSetEvents {
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    uid: String,
    at: Instant,
    newest: Option<StatefulSetWarning>,
}

impl StatefulSetEvents {
    /// The newest Warning event of the StatefulSet with this UID, if there is one whose events matter.
    ///
    /// Events are not watched: they are many, and of use only here. They are listed every so often. Best effort: a list that
    /// fails does not fail the reconcile.
    pub(super) async fn newest_warning(
        &mut self,
        client: &Client,
        namespace: &str,
        uid: Option<&str>,
    ) -> Option<StatefulSetWarning> {
        let before = self.listed.take().filter(|listed| Some(listed.uid.as_str()) == uid);
        let uid = uid?;
        let listed = match before {
            Some(listed) if listed.at.elapsed() < EVENTS_INTERVAL => listed,
            before => Listed {
                newest: match list(client, namespace, uid).await {
                    Some(events) => newest(events),
                    // What was listed before stands until something else is.
                    None => before.and_then(|listed| listed.newest),
                },
                uid: uid.to_owned(),
                at: Instant::now(),
            },
        };
        self.listed.insert(listed).newest.clone()
    }
}

async fn list(client: &Client, namespace: &str, uid: &str) -> Option<Vec<Event>> {
    let selector = format!("involvedObject.uid={uid},type=Warning");
    let parameters = ListParams::default().fields(&selector).limit(MOST_EVENTS);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match tokio::time::timeout(TIMEOUT, api.list(&parameters)).await {
        Ok(Ok(events)) => Some(events.items),
        Ok(Err(error)) => {
            debug!("list events of a StatefulSet in {namespace}: {}", describe(&error));
            None
        }
        Err(_elapsed) => None,
    }
}

fn newest(events: Vec<Event>) -> Option<StatefulSetWarning> {
    let worded = events
        .into_iter()
        .filter(|event| event.message.as_deref().is_some_and(|text| !text.trim().is_empty()));
    let event = worded.max_by_key(when)?;
    let repeated = event.series.as_ref().and_then(|series| series.count).or(event.count);
    Some(StatefulSetWarning {
        reason: shortened(&event.reason.unwrap_or_default(), LONGEST_REASON),
        message: shortened(event.message.unwrap_or_default().trim(), LONGEST_MESSAGE),
        count: repeated.unwrap_or(1),
    })
}

fn when(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref())
        .map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.max(last).or(first).or(created)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(message: &str, more: &Value) -> Event {
        let mut event = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" }, "involvedObject": {}, "reason": "FailedCreate", "message": message });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn the_newest_warning_counts_however_its_time_is_written() {
        let old = event("old", &json!({ "lastTimestamp": "2026-01-02T00:00:00Z", "count": 3 }));
        let series = json!({ "eventTime": "2026-01-01T00:00:00.000000Z", "series": { "count": 7, "lastObservedTime": "2026-01-03T00:00:00.000000Z" } });
        let repeated = event("repeated", &series);
        let blank = event(" ", &json!({ "lastTimestamp": "2026-01-09T00:00:00Z" }));
        let found = newest(vec![old.clone(), repeated, blank, event("bare", &json!({}))]).unwrap();
        assert_eq!((found.message.as_str(), found.count), ("repeated", 7));
        let found = newest(vec![event("bare", &json!({})), old]).unwrap();
        assert_eq!((found.message.as_str(), found.count), ("old", 3));
        assert_eq!(newest(Vec::new()), None);
    }

    #[test]
    fn an_event_of_any_size_is_cut() {
        let found = newest(vec![event(
            &"x".repeat(50_000),
            &json!({ "reason": "y".repeat(5_000) }),
        )])
        .unwrap();
        assert_eq!(found.message.chars().count(), LONGEST_MESSAGE);
        assert_eq!(found.reason.chars().count(), LONGEST_REASON);
    }
}
