//! The Warning events of a StatefulSet, which say why it lacks pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use crate::plan::engine::StatefulSetWarning;
use crate::text::shortened;

/// The longest texts that are copied from an event, which anyone may have written.
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_REASON: usize = 100;

/// The newest of these Warning events that has a message.
#[must_use]
pub fn newest_warning(events: Vec<Event>) -> Option<StatefulSetWarning> {
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
        let found = newest_warning(vec![old.clone(), repeated, blank, event("bare", &json!({}))]).unwrap();
        assert_eq!((found.message.as_str(), found.count), ("repeated", 7));
        let found = newest_warning(vec![event("bare", &json!({})), old]).unwrap();
        assert_eq!((found.message.as_str(), found.count), ("old", 3));
        assert_eq!(newest_warning(Vec::new()), None);
    }

    #[test]
    fn an_event_of_any_size_is_cut() {
        let found = newest_warning(vec![event(
            &"x".repeat(50_000),
            &json!({ "reason": "y".repeat(5_000) }),
        )])
        .unwrap();
        assert_eq!(found.message.chars().count(), LONGEST_MESSAGE);
        assert_eq!(found.reason.chars().count(), LONGEST_REASON);
    }
}
