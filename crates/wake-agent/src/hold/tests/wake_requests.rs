//! When a wake is requested.

use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;

use super::fixture::{Fixture, HOLD_TIMEOUT, engine};
use crate::hold::{Answer, Event, PatchOutcome, Refusal};

#[test]
fn a_thousand_requests_for_a_stopped_engine_make_one_patch() {
    let mut fixture = Fixture::new(1000);
    fixture.list(&[engine("a")]);
    for _ in 0..1000 {
        fixture.wait("a");
    }
    assert_eq!(fixture.patches.len(), 1);
    fixture.patch(PatchOutcome::Stored);
    assert!(fixture.patches.is_empty());
}

#[test]
fn the_annotation_is_the_time_of_day_in_milliseconds() {
    let mut fixture = Fixture::with(&[engine("a")]);
    fixture.wait("a");
    assert_eq!(fixture.patches[0].at.to_string(), "2026-06-01T12:00:00.123Z");
}

#[test]
fn no_wake_is_requested_for_an_engine_that_is_starting() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.advance_with(HOLD_TIMEOUT, &[engine("a").starting()]);
    assert!(fixture.patches.is_empty());
}

#[test]
fn a_wake_is_requested_for_an_engine_that_stops_while_requests_are_held() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a")]);
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn a_stream_of_requests_renews_the_wake_request_every_ten_seconds() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    let mut patches = 0;
    for _ in 0..100 {
        fixture.arrive("a");
        while !fixture.patches.is_empty() {
            patches += 1;
            fixture.patch(PatchOutcome::Stored);
        }
        fixture.advance_with(Duration::from_millis(500), &engines);
    }
    assert_eq!(patches, 5, "in fifty seconds");
}

#[test]
fn one_held_request_renews_the_wake_request_every_minute() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    fixture.wait("a");
    fixture.patch(PatchOutcome::Stored);
    fixture.advance_with(Duration::from_millis(59_999), &engines);
    assert!(fixture.patches.is_empty());
    fixture.advance_with(Duration::from_millis(1), &engines);
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn a_wake_request_is_not_renewed_for_clients_that_disconnected() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    let waiter = fixture.wait("a");
    fixture.patch(PatchOutcome::Stored);
    fixture.handle(Event::Left(waiter));
    fixture.advance_with(Duration::from_mins(5), &engines);
    assert!(fixture.patches.is_empty());
}

#[rstest]
#[case::now(0, 0)]
#[case::nine_seconds_ago(9, 0)]
#[case::ten_seconds_ago(10, 1)]
#[case::a_minute_ahead(-60, 0)]
#[case::more_than_a_minute_ahead(-61, 1)]
fn a_recent_wake_request_of_another_client_counts(#[case] age: i64, #[case] patches: usize) {
    let mut fixture = Fixture::new(10);
    let woken = engine("a").woken(fixture.now.wall - SignedDuration::from_secs(age));
    fixture.list(&[woken]);
    fixture.wait("a");
    assert_eq!(fixture.patches.len(), patches);
}

#[test]
fn a_wake_request_of_another_client_is_renewed_after_a_minute() {
    let mut fixture = Fixture::new(10);
    let engines = [engine("a").woken(fixture.now.wall)];
    fixture.list(&engines);
    fixture.wait("a");
    fixture.advance_with(Duration::from_secs(59), &engines);
    assert!(fixture.patches.is_empty());
    fixture.advance_with(Duration::from_secs(1), &engines);
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn a_failed_patch_is_retried_with_backoff() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    let waiter = fixture.wait("a");
    for wait in [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        fixture.patch(PatchOutcome::Failed);
        fixture.advance_with(Duration::from_millis(wait - 1), &engines);
        assert!(fixture.patches.is_empty());
        fixture.advance_with(Duration::from_millis(1), &engines);
        assert_eq!(fixture.patches.len(), 1);
    }
    fixture.patch(PatchOutcome::Stored);
    assert_eq!(fixture.answer_to(&waiter), None);
    fixture.advance_with(Duration::from_secs(59), &engines);
    assert!(fixture.patches.is_empty());
}

#[test]
fn a_patch_that_times_out_is_retried() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    fixture.wait("a");
    let lost = fixture.patches.pop().expect("a patch");
    fixture.advance_with(Duration::from_millis(5_500), &engines);
    assert_eq!(fixture.patches.len(), 1);
    fixture.handle(Event::Patched(lost, PatchOutcome::Refused));
    assert_eq!(
        fixture.state.occupancy().waiting,
        1,
        "the result of a patch that timed out is ignored"
    );
}

#[test]
fn the_wake_request_of_a_refused_request_is_retried() {
    let engines = [engine("a")];
    let mut fixture = Fixture::new(0);
    fixture.list(&engines);
    fixture.refused("a");
    fixture.patch(PatchOutcome::Failed);
    fixture.advance_with(Duration::from_millis(500), &engines);
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn the_wake_request_of_a_refused_request_is_dropped_after_the_hold_timeout() {
    let engines = [engine("a")];
    let mut fixture = Fixture::new(0);
    fixture.list(&engines);
    fixture.refused("a");
    fixture.patch(PatchOutcome::Failed);
    while fixture.patches.pop().is_some() || fixture.state != without_queues(&fixture) {
        fixture.advance_with(Duration::from_secs(5), &engines);
        assert!(fixture.now.wall.to_string().as_str() < "2026-06-01T12:03");
    }
}

#[test]
fn no_wake_is_requested_once_auto_stop_is_turned_off() {
    let mut fixture = Fixture::new(0);
    fixture.list(&[engine("a")]);
    fixture.refused("a");
    fixture.patch(PatchOutcome::Failed);
    fixture.advance(Duration::from_millis(500));
    fixture.patch(PatchOutcome::Failed);
    fixture.advance(Duration::from_millis(500));
    fixture.refused("a");
    let engines = [engine("a").without_auto_stop()];
    fixture.list(&engines);
    fixture.advance_with(Duration::from_secs(20), &engines);
    assert!(fixture.patches.is_empty());
}

/// The state without the queues of engines.
fn without_queues(fixture: &Fixture) -> crate::hold::HoldState {
    let mut state = fixture.state.clone();
    state.queues.clear();
    state
}

#[test]
fn held_requests_are_refused_once_the_patch_is_refused() {
    let mut fixture = Fixture::with(&[engine("a"), engine("b").starting()]);
    let (waiter, other) = (fixture.wait("a"), fixture.wait("b"));
    fixture.patch(PatchOutcome::Refused);
    let wait = Duration::from_secs(10);
    assert_eq!(
        fixture.answer_to(&waiter),
        Some(&Answer::Refuse(Refusal::NotAllowed(wait)))
    );
    assert_eq!(fixture.answer_to(&other), None);
    fixture.advance(Duration::from_secs(4));
    assert_eq!(fixture.refused("a"), Refusal::NotAllowed(Duration::from_secs(6)));
    assert!(fixture.patches.is_empty());
}

#[test]
fn a_refused_patch_is_tried_again_after_ten_seconds() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    fixture.wait("a");
    fixture.patch(PatchOutcome::Refused);
    fixture.advance_with(Duration::from_secs(10), &engines);
    assert!(fixture.patches.is_empty(), "not without a request");
    fixture.wait("a");
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn requests_are_held_despite_a_refused_patch_if_another_client_wakes_the_engine() {
    let mut fixture = Fixture::with(&[engine("a")]);
    fixture.wait("a");
    fixture.patch(PatchOutcome::Refused);
    fixture.advance(Duration::from_secs(5));
    fixture.list(&[engine("a").woken(fixture.now.wall)]);
    fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a").starting()]);
    fixture.wait("a");
    assert_eq!(fixture.state.occupancy().waiting, 2);
}

#[test]
fn the_queue_of_an_engine_without_requests_is_dropped() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    let waiter = fixture.wait("a");
    fixture.patch(PatchOutcome::Stored);
    fixture.handle(Event::Left(waiter));
    fixture.advance_with(Duration::from_secs(20), &engines);
    assert_eq!(fixture.state, without_queues(&fixture));
}
