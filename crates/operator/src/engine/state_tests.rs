use firebolt_core::plan::engine::{Desired, DrainSettings};
use firebolt_core::resolve::engine::resolve;

use super::super::fixture::rejected as error;
use super::super::fixture::{defaults, facts};
use super::*;

fn desired() -> DesiredEngine {
    DesiredEngine {
        effective: resolve(&FireboltEngine::default(), None, &facts(), &defaults()),
        generation: Ok(Desired {
            template_hash: "f".to_owned(),
            rendering_hash: String::new(),
        }),
        auto_stop: None,
        instance: Ok(()),
        drain: DrainSettings {
            waits: true,
            interval: Duration::from_secs(5),
        },
        scrape_mode: firebolt_api::MetricScrapeMode::PodIp,
    }
}

/// How long the rendering is not sent again.
fn retry_after(state: &mut EngineState, desired: &DesiredEngine) -> Option<Duration> {
    let rejected = state.begin_plan(desired, &EngineObjects::default(), None).rejected;
    rejected.map(|rejected| rejected.retry_after)
}

#[test]
fn the_time_without_route_starts_at_the_first_observation_and_every_other_resets_it() {
    let time = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
    let mut state = EngineState::default();
    state.observe_route(true, time(1));
    state.observe_route(true, time(2));
    assert_eq!(state.unrouted_since, Some(time(1)));
    state.observe_route(false, time(3));
    assert_eq!(state.unrouted_since, None);
}

#[tokio::test(start_paused = true)]
async fn another_wording_has_to_wait_after_a_status() {
    let mut state = EngineState::default();
    assert_eq!(
        state.begin_plan(&desired(), &EngineObjects::default(), None).wording,
        Duration::ZERO
    );
    state.status_written = Some(Instant::now());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        state.begin_plan(&desired(), &EngineObjects::default(), None).wording,
        Duration::from_secs(1)
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        state.begin_plan(&desired(), &EngineObjects::default(), None).wording,
        Duration::ZERO
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejected_rendering_is_sent_again_later() {
    let mut state = EngineState::default();
    let gate = state
        .reject(&desired(), &error("StatefulSet", 403, "no room"))
        .expect("a gate");
    assert_eq!(gate.cause, GateCause::WriteRefused);
    assert!(
        gate.message
            .starts_with("The API server rejected the request to create StatefulSet a-g0: no room."),
        "{}",
        gate.message
    );
    let left = retry_after(&mut state, &desired()).expect("a delay");
    assert_eq!(
        state
            .begin_plan(&desired(), &EngineObjects::default(), None)
            .rejected
            .map(|rejected| rejected.gate.clone()),
        Some(gate)
    );
    tokio::time::advance(left).await;
    state.accepted();
    assert!(
        state.rejection.is_some(),
        "nothing was sent by a reconcile that began earlier"
    );
    assert_eq!(retry_after(&mut state, &desired()), None);
    state.accepted();
    assert!(state.rejection.is_none());
}

#[tokio::test(start_paused = true)]
async fn another_rendering_is_sent_at_once() {
    let mut state = EngineState::default();
    state.reject(&desired(), &error("StatefulSet", 422, "no room"));
    let mut corrected = desired();
    corrected.generation.as_mut().unwrap().template_hash = "g".to_owned();
    assert_eq!(retry_after(&mut state, &corrected), None);
    assert!(state.rejection.is_none());
}

#[tokio::test(start_paused = true)]
async fn only_a_rejection_of_what_was_rendered_holds_it_back() {
    for failure in [
        error("StatefulSet", 500, "no room"),
        error("StatefulSet", 409, "no room"),
        error("FireboltEngine/status", 422, "no room"),
    ] {
        let mut state = EngineState::default();
        assert_eq!(state.reject(&desired(), &failure), None);
        assert!(state.rejection.is_none(), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn delays_grow_with_each_rejection_of_the_same_rendering() {
    let mut state = EngineState::default();
    state.reject(&desired(), &error("StatefulSet", 403, "no room"));
    let first = retry_after(&mut state, &desired()).unwrap();
    state.reject(&desired(), &error("StatefulSet", 403, "no room"));
    assert_eq!(retry_after(&mut state, &desired()), Some(first * 2));
}

#[tokio::test(start_paused = true)]
async fn long_messages_of_the_api_server_are_cut() {
    let mut state = EngineState::default();
    let endless = error("StatefulSet", 422, &"x".repeat(50_000));
    let gate = state.reject(&desired(), &endless).unwrap();
    assert!(gate.message.len() < 2_000, "{}", gate.message.len());
}
