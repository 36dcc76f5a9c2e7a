use serde_json::{Value, json};

use super::super::fixture::{creating, engine_with, planned, refused};
use super::*;

#[tokio::test(start_paused = true)]
async fn pauses_grow_and_a_wait_that_is_asked_for_is_kept() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let pauses: Vec<Duration> = (0..12)
        .map(|_| {
            failed(&mut memory, &refused("StatefulSet", 500, "no room"))
                .due
                .unwrap()
                - start
        })
        .collect();
    assert!(pauses[0] <= FIRST_PAUSE && pauses[0] >= FIRST_PAUSE / 2, "{pauses:?}");
    assert!(
        pauses[11] <= LONGEST_PAUSE && pauses[11] >= LONGEST_PAUSE / 2,
        "{pauses:?}"
    );
    assert!(memory.distrust);
    let mut fresh = Memory::default();
    let shed = failed(&mut fresh, &refused("StatefulSet", 429, "no room"));
    assert!(shed.due.unwrap() - start >= Duration::from_secs(1));
    assert!(shed.not_before.unwrap() - start >= Duration::from_secs(1));
    let over = failed(&mut fresh, &PassError::TermOver);
    assert_eq!(over.due, Some(start + STILL_LEADING), "unless it leads after all");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_overtaken_is_made_again_soon_unless_that_goes_on() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let outdated = PassError::Outdated {
        object: ObjectKey::new("n", "a"),
    };
    for _ in 0..3 {
        assert_eq!(failed(&mut memory, &outdated).due, Some(start + SOON));
    }
    assert!(failed(&mut memory, &outdated).due.unwrap() - start > SOON);
}

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

#[tokio::test(start_paused = true)]
async fn a_pass_that_has_to_wait_is_as_urgent_as_it_was() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let wait = succeeded(&mut memory, &Done::Unfinished(SOON));
    assert!(wait.unfinished && wait.due == Some(start + SOON) && wait.not_before.is_none());
    let done = |again, floor| Done::Finished { again, floor };
    assert_eq!(succeeded(&mut memory, &done(None, None)), Again::default());
    let fight = succeeded(&mut memory, &done(Some(Duration::ZERO), Some(SOON)));
    assert_eq!((fight.due, fight.not_before), (Some(start + SOON), Some(start + SOON)));
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
