use firebolt_core::plan::engine::{Desired, DrainSettings};
use firebolt_core::resolve::engine::resolve;
use serde_json::{Value, json};

use super::super::fixture::refused as error;
use super::super::fixture::{creating, defaults, engine_with, facts, planned};
use super::*;

/// Whether the next status is written, so long after the last one.
async fn is_written(seconds: u64, next: Value) -> bool {
    let engine = engine_with(creating("Rolling", "1 of 3 pods ready."));
    let mut memory = Memory {
        told_at: Some(Instant::now()),
        ..Memory::default()
    };
    tokio::time::advance(Duration::from_secs(seconds)).await;
    let mut plan = planned(next);
    let again = chatter(&engine, &mut plan, &mut memory);
    assert_eq!(again.is_some(), plan.status.is_none(), "what is held back comes later");
    plan.status.is_some()
}

#[tokio::test(start_paused = true)]
async fn words_alone_are_not_written_all_the_time() {
    assert!(!is_written(1, creating("Rolling", "2 of 3 pods ready.")).await);
    assert!(is_written(2, creating("Rolling", "2 of 3 pods ready.")).await);
    assert!(is_written(0, creating("PodsNotReady", "2 of 3 pods ready.")).await);
    let mut switched = creating("Rolling", "Queries are being moved.");
    switched["phase"] = json!("switching");
    assert!(is_written(0, switched).await);
}

fn wish() -> Wish {
    Wish {
        effective: resolve(&FireboltEngine::default(), None, &facts(), &defaults()),
        desired: Ok(Desired {
            fingerprint: "f".to_owned(),
            auto_stop: None,
        }),
        drain: DrainSettings {
            waits: true,
            interval: Duration::from_secs(5),
        },
        transport: firebolt_api::MetricScrapeMode::PodIp,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_reported_and_tried_again_later() {
    let mut memory = Memory::default();
    refusal(&wish(), &mut memory, &error("StatefulSet", 403, "no room"));
    let mut held = wish();
    let left = refused(&mut held, &mut memory).expect("a pause");
    let gate = held.desired.unwrap_err();
    assert_eq!(gate.cause, GateCause::WriteRefused);
    assert!(
        gate.message
            .starts_with("The API server refuses to create StatefulSet a-g0: no room."),
        "{}",
        gate.message
    );
    tokio::time::advance(left).await;
    let mut tried = wish();
    assert_eq!(refused(&mut tried, &mut memory), None);
    assert!(tried.desired.is_ok());
}

#[tokio::test(start_paused = true)]
async fn another_rendering_is_tried_at_once() {
    let mut memory = Memory::default();
    refusal(&wish(), &mut memory, &error("StatefulSet", 422, "no room"));
    let mut corrected = wish();
    corrected.desired.as_mut().unwrap().fingerprint = "g".to_owned();
    assert_eq!(refused(&mut corrected, &mut memory), None);
    assert!(corrected.desired.is_ok() && memory.refused.is_none());
}

#[tokio::test(start_paused = true)]
async fn only_a_refusal_of_what_was_rendered_is_held_against_it() {
    for failure in [
        error("StatefulSet", 500, "no room"),
        error("StatefulSet", 409, "no room"),
        error("FireboltEngine/status", 422, "no room"),
    ] {
        let mut memory = Memory::default();
        refusal(&wish(), &mut memory, &failure);
        assert!(memory.refused.is_none(), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_with_each_refusal_of_the_same() {
    let mut memory = Memory::default();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        refusal(&wish(), &mut memory, &error("StatefulSet", 403, "no room"));
        let left = refused(&mut wish(), &mut memory).unwrap();
        tokio::time::advance(left).await;
        pauses.push(left.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_says_is_cut() {
    let mut memory = Memory::default();
    let endless = error("StatefulSet", 422, &"x".repeat(50_000));
    let gate = refusal(&wish(), &mut memory, &endless).unwrap();
    assert!(gate.message.len() < 2_000, "{}", gate.message.len());
}

#[tokio::test(start_paused = true)]
async fn a_fight_is_not_fought_at_full_speed() {
    let mut memory = Memory::default();
    let mut plan = planned(Value::Null);
    for _ in 0..100 {
        assert_eq!(repairs(&plan, &mut memory), None, "nothing was repaired");
    }
    plan.writes = vec![Write::ApplyRoutingService { generation: 0 }];
    assert!((0..100).any(|_| repairs(&plan, &mut memory).is_some()));
}
