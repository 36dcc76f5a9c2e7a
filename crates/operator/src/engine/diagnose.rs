//! Why pods are not there or not ready, so that nobody has to look for it.

use std::time::Duration;

use firebolt_core::plan::engine::{Generation, StatefulSetWarning};
use firebolt_core::pods;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::debug;

use super::memory::Memory;
use crate::error::{describe, shortened};

/// How long the StatefulSet controller gets to make the pods before its events are looked at.
const PATIENCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);
/// How often they are looked at while pods are missing.
pub const EVERY: Duration = Duration::from_secs(10);
/// How long a look may hold up the pass, which has more important things to do.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// Kubernetes merges events that repeat themselves; a StatefulSet has few different ones.
const MOST_EVENTS: u32 = 32;

/// The most that is taken over of an event, which anybody may have written.
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_REASON: usize = 100;

/// What the pods of a StatefulSet say about why they are not ready.
pub fn pod_causes(generation: Option<&Generation>, all: &[Pod]) -> Vec<String> {
    let Some(set) = generation.and_then(|generation| generation.stateful_set.as_ref()) else {
        return Vec::new();
    };
    let own = all.iter();
    pods::causes(own.filter(|pod| pods::is_of(pod, &set.meta.uid) && !pods::is_terminating(pod)))
}

/// The newest Warning event of the StatefulSet, if pods are missing that it should have made.
///
/// Events are not watched: they are many, and of use only here. A failed look is no reason to fail the pass.
pub async fn warning(
    client: &Client,
    namespace: &str,
    generation: Option<&Generation>,
    memory: &mut Memory,
    now: Timestamp,
) -> Option<StatefulSetWarning> {
    let Some(set) = generation
        .filter(|generation| is_stuck(generation, now))
        .and_then(Generation::live_set)
    else {
        memory.warning = None;
        return None;
    };
    if let Some((uid, looked, found)) = &memory.warning
        && *uid == set.meta.uid
        && looked.elapsed() < EVERY
    {
        return found.clone();
    }
    let selector = format!("involvedObject.uid={},type=Warning", set.meta.uid);
    let parameters = ListParams::default().fields(&selector).limit(MOST_EVENTS);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    // What was found before stands until something else is found.
    let before = memory
        .warning
        .take()
        .filter(|(uid, _, _)| *uid == set.meta.uid)
        .and_then(|(_, _, found)| found);
    let found = match tokio::time::timeout(LONGEST_LOOK, api.list(&parameters)).await {
        Ok(Ok(events)) => newest(events.items),
        Ok(Err(error)) => {
            debug!(
                "cannot list events of a StatefulSet in {namespace}: {}",
                describe(&error)
            );
            before
        }
        Err(_elapsed) => before,
    };
    memory.warning = Some((set.meta.uid.clone(), Instant::now(), found.clone()));
    found
}

/// Pods are missing although there was time to make them.
fn is_stuck(generation: &Generation, now: Timestamp) -> bool {
    wait(generation, now) == Some(EVERY)
}

/// When to look for a reason, if pods are missing: once there was time to make them, and then every so often. Nothing else
/// may come to say that there is one.
pub fn wait(generation: &Generation, now: Timestamp) -> Option<Duration> {
    let set = generation
        .live_set()
        .filter(|set| generation.pods.total < set.replicas)?;
    let left = PATIENCE - now.duration_since(set.created);
    Some(
        Duration::try_from(left)
            .ok()
            .filter(|left| !left.is_zero())
            .unwrap_or(EVERY),
    )
}

fn newest(events: Vec<Event>) -> Option<StatefulSetWarning> {
    let told = events
        .into_iter()
        .filter(|event| event.message.as_deref().is_some_and(|text| !text.trim().is_empty()));
    let event = told.max_by_key(when)?;
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

    #[test]
    fn missing_pods_are_looked_into_when_there_was_time_to_make_them() {
        let created: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let generation = |total| Generation {
            stateful_set: Some(firebolt_core::plan::engine::StatefulSet {
                meta: firebolt_core::plan::Meta {
                    uid: String::new(),
                    owned: true,
                    terminating: false,
                    foreign_finalizers: Vec::new(),
                },
                fingerprint: None,
                tampered: false,
                replicas: 2,
                created,
            }),
            pods: firebolt_core::plan::engine::Pods { total, ready: 0 },
            ..Generation::default()
        };
        let after = |millis| created + jiff::SignedDuration::from_millis(millis);
        assert_eq!(wait(&generation(1), after(500)), Some(Duration::from_millis(1500)));
        assert_eq!(wait(&generation(1), after(2_000)), Some(EVERY));
        assert!(is_stuck(&generation(1), after(2_000)) && !is_stuck(&generation(1), after(1_999)));
        assert_eq!(wait(&generation(2), after(9_000)), None, "all are there");
    }
}
