use serde_json::{Value, json};

use super::super::fixture::{creating, engine_with, planned};
use super::*;

#[test]
fn the_wake_duration_starts_at_the_wake_request() {
    let mut engine = engine_with(Value::Null);
    let now = Timestamp::now();
    let requested_at = now - jiff::SignedDuration::from_secs(5);
    let key = Annotation::WakeRequested.key().to_owned();
    engine.metadata.annotations = Some([(key, requested_at.to_string())].into());
    let mut next = creating("Stopped", "");
    next["autoStopReason"] = json!("WakeRequested");
    let mut plan = planned(next);
    assert_eq!(woken_after(&engine, &plan, now), None, "nothing was scaled");
    let scale = |from, to| EngineWrite::SetReplicas {
        from,
        to,
        resource_version: String::new(),
    };
    plan.writes = vec![scale(0, 2)];
    assert_eq!(woken_after(&engine, &plan, now), Some(Duration::from_secs(5)));
    plan.writes = vec![scale(2, 0)];
    assert_eq!(woken_after(&engine, &plan, now), None, "scaling down is not a wake");
}

#[test]
fn reasons_of_others_are_not_counted_by_name() {
    let event = |type_, reason: &str| events::Event {
        type_,
        reason: reason.to_owned(),
        message: String::new(),
    };
    assert_eq!(
        decision(&event(events::EventType::Warning, "Evil1")),
        "StatefulSetWarning"
    );
    assert_eq!(
        decision(&event(events::EventType::Warning, "WakeIgnored")),
        "WakeIgnored"
    );
    assert_eq!(
        decision(&event(events::EventType::Warning, "WriteRefused")),
        "WriteRefused"
    );
    assert_eq!(decision(&event(events::EventType::Normal, "Creating")), "Creating");
}

#[test]
fn an_engine_is_well_when_it_serves_or_is_meant_not_to() {
    let mut ready = creating("EngineReady", "");
    ready["conditions"][0]["status"] = json!("True");
    assert!(is_well(&engine_with(ready)));
    assert!(!is_well(&engine_with(creating("Rolling", ""))));
    let mut stopped = creating("Stopped", "");
    stopped["phase"] = json!("stopped");
    assert!(is_well(&engine_with(stopped)));
}
