use firebolt_core::plan::Desired;
use firebolt_core::resolve::{Defaults, InstanceFacts, resolve};
use serde_json::{Value, json};

use super::*;

fn engine(status: Value) -> FireboltEngine {
    FireboltEngine {
        status: serde_json::from_value(status).unwrap(),
        ..FireboltEngine::default()
    }
}

fn status(reason: &str, message: &str) -> Value {
    let condition = json!({ "type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-11-16T12:00:00Z" });
    json!({ "currentGeneration": 0, "activeGeneration": -1, "phase": "creating", "conditions": [condition] })
}

fn planned(next: Value) -> Plan {
    Plan {
        writes: Vec::new(),
        status: serde_json::from_value(next).unwrap(),
        events: Vec::new(),
        look_again: None,
    }
}

/// Whether the next status is written, so long after the last one.
async fn is_written(seconds: u64, next: Value) -> bool {
    let engine = engine(status("Rolling", "1 of 3 pods ready."));
    let mut memory = Memory::default();
    memory.told_at = Some(Instant::now());
    tokio::time::advance(Duration::from_secs(seconds)).await;
    let mut plan = planned(next);
    let again = hold_back_chatter(&engine, &mut plan, &mut memory);
    assert_eq!(again.is_some(), plan.status.is_none(), "what is held back comes later");
    plan.status.is_some()
}

#[tokio::test(start_paused = true)]
async fn words_alone_are_not_written_all_the_time() {
    assert!(!is_written(1, status("Rolling", "2 of 3 pods ready.")).await);
    assert!(is_written(2, status("Rolling", "2 of 3 pods ready.")).await);
    assert!(is_written(0, status("PodsNotReady", "2 of 3 pods ready.")).await);
    let mut switched = status("Rolling", "Queries are being moved.");
    switched["phase"] = json!("switching");
    assert!(is_written(0, switched).await);
}

fn wish() -> Wish {
    let facts = InstanceFacts {
        id: String::new(),
        metadata_endpoint: String::new(),
    };
    let defaults = Defaults {
        engine_image: String::new(),
        ui_image: String::new(),
        image_pull_secrets: Vec::new(),
        cluster_domain: String::new(),
    };
    Wish {
        effective: resolve(&FireboltEngine::default(), None, &facts, &defaults),
        desired: Ok(Desired {
            fingerprint: "f".to_owned(),
            auto_stop: None,
        }),
        drain: firebolt_core::plan::DrainSettings {
            waits: true,
            interval: Duration::from_secs(5),
        },
        transport: firebolt_api::MetricScrapeMode::PodIp,
    }
}

fn refusal(kind: &'static str, code: u16) -> PassError {
    let status = kube::core::Status {
        code,
        ..kube::core::Status::failure("no room", "Forbidden")
    };
    PassError::Write {
        verb: "create",
        kind,
        object: ObjectKey::new("n", "a-g0"),
        source: Box::new(kube::Error::Api(Box::new(status))),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_reported_and_tried_again_later() {
    let mut memory = Memory::default();
    remember_refusal(&mut memory, &wish(), &refusal("StatefulSet", 403));
    let mut held = wish();
    let left = hold_back_refused(&mut held, &mut memory).expect("a pause");
    let gate = held.desired.unwrap_err();
    assert_eq!(gate.cause, GateCause::WriteRefused);
    assert!(
        gate.message
            .starts_with("The API server refuses StatefulSet a-g0: no room."),
        "{}",
        gate.message
    );
    tokio::time::advance(left).await;
    let mut tried = wish();
    assert_eq!(hold_back_refused(&mut tried, &mut memory), None);
    assert!(tried.desired.is_ok());
}

#[tokio::test(start_paused = true)]
async fn another_rendering_is_tried_at_once() {
    let mut memory = Memory::default();
    remember_refusal(&mut memory, &wish(), &refusal("StatefulSet", 422));
    let mut corrected = wish();
    corrected.desired.as_mut().unwrap().fingerprint = "g".to_owned();
    assert_eq!(hold_back_refused(&mut corrected, &mut memory), None);
    assert!(corrected.desired.is_ok() && memory.refused.is_none());
}

#[tokio::test(start_paused = true)]
async fn only_a_refusal_of_what_was_rendered_is_held_against_it() {
    for error in [
        refusal("StatefulSet", 500),
        refusal("StatefulSet", 409),
        refusal("FireboltEngine/status", 422),
    ] {
        let mut memory = Memory::default();
        remember_refusal(&mut memory, &wish(), &error);
        assert!(memory.refused.is_none(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_and_a_wait_that_is_asked_for_is_kept() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let pauses: Vec<Duration> = (0..12)
        .map(|_| {
            Controller::failed(&mut memory, &refusal("StatefulSet", 500))
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
    let shed = Controller::failed(&mut fresh, &refusal("StatefulSet", 429));
    assert!(shed.due.unwrap() - start >= Duration::from_secs(1));
    assert!(shed.not_before.unwrap() - start >= Duration::from_secs(1));
    let over = Controller::failed(&mut fresh, &PassError::TermOver);
    assert_eq!(over, Again::default(), "nothing more is done");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_overtaken_is_made_again_soon_unless_that_goes_on() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let outdated = PassError::Outdated {
        object: ObjectKey::new("n", "a"),
    };
    for _ in 0..3 {
        assert_eq!(Controller::failed(&mut memory, &outdated).due, Some(start + SOON));
    }
    assert!(Controller::failed(&mut memory, &outdated).due.unwrap() - start > SOON);
}

#[test]
fn a_wake_is_measured_from_its_stamp() {
    let mut asked = engine(Value::Null);
    let stamp = Timestamp::now() - jiff::SignedDuration::from_secs(5);
    let key = Annotation::WakeRequested.key().to_owned();
    asked.metadata.annotations = Some([(key, stamp.to_string())].into());
    let mut next = status("Stopped", "");
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
