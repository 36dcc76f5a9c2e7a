use serde_json::{Value, json};

use super::super::fixture::{creating, engine_with, planned};
use super::*;

#[test]
fn a_wake_is_measured_from_its_stamp() {
    let mut asked = engine_with(Value::Null);
    let stamp = Timestamp::now() - jiff::SignedDuration::from_secs(5);
    let key = Annotation::WakeRequested.key().to_owned();
    asked.metadata.annotations = Some([(key, stamp.to_string())].into());
    let mut next = creating("Stopped", "");
    next["autoStopReason"] = json!("WakeRequested");
    let mut plan = planned(next);
    assert_eq!(woken_after(&asked, &plan), None, "nothing was scaled");
    let scale = |from, to| Write::SetReplicas {
        from,
        to,
        resource_version: String::new(),
    };
    plan.writes = vec![scale(0, 2)];
    assert!(woken_after(&asked, &plan).unwrap() >= Duration::from_secs(5));
    plan.writes = vec![scale(2, 0)];
    assert_eq!(woken_after(&asked, &plan), None, "stopping is no waking");
}

#[test]
fn reasons_of_others_are_not_counted_by_name() {
    let event = |severity, reason: &str| Event {
        severity,
        reason: reason.to_owned(),
        message: String::new(),
    };
    assert_eq!(decision(&event(Severity::Warning, "Evil1")), "StatefulSetWarning");
    assert_eq!(decision(&event(Severity::Warning, "WakeIgnored")), "WakeIgnored");
    assert_eq!(decision(&event(Severity::Warning, "WriteRefused")), "WriteRefused");
    assert_eq!(decision(&event(Severity::Normal, "Creating")), "Creating");
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
