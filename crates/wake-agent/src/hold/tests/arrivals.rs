//! What happens to a request when it arrives.

use std::time::Duration;

use rstest::rstest;

use super::fixture::{Fixture, engine};
use crate::hold::{Answer, Arrival, Event, LARGEST_BODY, OVERHEAD, Refusal, Route};

#[rstest]
#[case("")]
#[case("../secrets")]
#[case("Analytics")]
fn a_name_that_no_engine_can_have_is_refused_before_anything_is_known(#[case] name: &str) {
    assert_eq!(Fixture::new(10).refused(name), Refusal::Malformed);
}

#[test]
fn everything_is_routed_before_the_first_list() {
    assert_eq!(Fixture::new(10).routed("a"), Route::FailOpen);
}

#[test]
fn a_request_for_a_ready_engine_is_routed_without_effects() {
    let mut fixture = Fixture::with(&[engine("a").ready()]);
    assert_eq!(fixture.routed("a"), Route::Ready);
    assert!(fixture.lists.is_empty() && fixture.probes.is_empty() && fixture.patches.is_empty());
    assert_eq!(fixture.state.occupancy().waiting, 0);
}

#[test]
fn requests_for_unknown_engines_are_held_for_one_newer_list() {
    let mut fixture = Fixture::with(&[]);
    fixture.advance(Duration::from_millis(300));
    let (one, other) = (fixture.wait("a"), fixture.wait("b"));
    assert_eq!(fixture.lists.len(), 1);
    fixture.list(&[engine("b").ready()]);
    assert_eq!(fixture.answer_to(&one), Some(&Answer::Refuse(Refusal::NotFound)));
    assert_eq!(fixture.answer_to(&other), Some(&Answer::Route(Route::Ready)));
    assert!(fixture.probes.is_empty(), "a made-up name costs Envoy nothing");
}

#[test]
fn a_list_that_started_before_the_request_does_not_refuse_it() {
    let mut fixture = Fixture::with(&[]);
    fixture.advance(Duration::from_secs(5));
    assert_eq!(fixture.lists.len(), 1);
    fixture.advance(Duration::from_millis(1));
    let waiter = fixture.wait("new");
    fixture.list(&[]);
    assert_eq!(fixture.answer_to(&waiter), None);
    fixture.advance(Duration::from_millis(250));
    fixture.list(&[engine("new").starting()]);
    assert_eq!(fixture.answer_to(&waiter), None);
    fixture.probe(true);
    assert!(fixture.released(&waiter));
}

#[test]
fn an_engine_of_another_instance_looks_like_one_that_does_not_exist() {
    let others = [engine("a").of("other"), engine("b").ready().of("other")];
    let mut fixture = Fixture::with(&others);
    let waiters = [fixture.wait("a"), fixture.wait("b"), fixture.wait("c")];
    fixture.advance(Duration::from_millis(250));
    fixture.list(&others);
    for waiter in &waiters {
        assert_eq!(fixture.answer_to(waiter), Some(&Answer::Refuse(Refusal::NotFound)));
    }
    assert!(fixture.patches.is_empty() && fixture.probes.is_empty());
}

#[test]
fn a_request_for_an_unknown_engine_is_routed_if_the_listing_fails() {
    let mut fixture = Fixture::with(&[]);
    fixture.advance(Duration::from_secs(1));
    let waiter = fixture.wait("a");
    fixture.list_fails();
    assert_eq!(fixture.answer_to(&waiter), Some(&Answer::Route(Route::FailOpen)));
}

#[test]
fn a_request_for_an_unknown_engine_is_routed_if_the_listing_times_out() {
    let mut fixture = Fixture::with(&[]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_secs(5));
    assert_eq!(fixture.answer_to(&waiter), Some(&Answer::Route(Route::FailOpen)));
    assert_eq!(fixture.state.occupancy().waiting, 0);
}

#[test]
fn made_up_names_occupy_at_most_a_quarter_of_the_memory_and_are_forgotten() {
    let mut fixture = Fixture::with(&[engine("real")]);
    for name in 0..3 {
        fixture.wait(&format!("made-up-{name}"));
    }
    for name in 3..1_000_000 {
        assert_eq!(fixture.refused(&format!("made-up-{name}")), Refusal::Full);
    }
    fixture.wait("real");
    fixture.advance(Duration::from_millis(250));
    fixture.list(&[engine("real"), engine("new").ready()]);
    assert_eq!(fixture.state.occupancy().waiting, 1);
    assert_eq!(fixture.routed("new"), Route::Ready, "made-up names block no other name");
}

#[test]
fn a_stopped_engine_without_auto_stop_is_refused_at_once() {
    let mut fixture = Fixture::with(&[engine("a").without_auto_stop()]);
    assert_eq!(fixture.refused("a"), Refusal::Stopped);
    assert!(fixture.patches.is_empty() && fixture.probes.is_empty());
}

#[test]
fn requests_for_a_starting_engine_without_auto_stop_are_held() {
    let mut fixture = Fixture::with(&[engine("a").starting().without_auto_stop()]);
    fixture.wait("a");
    assert!(fixture.patches.is_empty());
}

#[test]
fn a_stopped_engine_that_was_never_reconciled_is_woken() {
    let mut new = engine("a");
    new.auto_stop = None;
    let mut fixture = Fixture::with(&[new]);
    fixture.wait("a");
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn held_requests_never_exceed_the_memory_limit() {
    let mut fixture = Fixture::with(&[engine("a"), engine("b")]);
    let waiters: Vec<_> = (0..12).map(|_| fixture.wait("a")).collect();
    assert_eq!(fixture.refused("a"), Refusal::Full);
    assert_eq!(fixture.refused("b"), Refusal::Full);
    fixture.handle(Event::Left(waiters[0].clone()));
    fixture.wait("b");
}

#[test]
fn a_large_request_counts_as_much_as_many_small_ones() {
    let mut fixture = Fixture::with(&[engine("a")]);
    assert!(matches!(fixture.arrive_with("a", 9 * OVERHEAD), Arrival::Waits(_)));
    assert_eq!(fixture.state.occupancy().bytes, 10 * OVERHEAD);
    let full = Arrival::Answered(Answer::Refuse(Refusal::Full));
    assert_eq!(fixture.arrive_with("a", OVERHEAD + 1), full);
    assert!(matches!(fixture.arrive_with("a", OVERHEAD), Arrival::Waits(_)));
    assert_eq!(fixture.arrive_with("a", 0), full);
    assert_eq!(
        (fixture.state.occupancy().waiting, fixture.state.occupancy().bytes),
        (2, 12 * OVERHEAD)
    );
}

#[test]
fn no_request_counts_for_more_than_envoy_keeps_of_it() {
    let mut fixture = Fixture::new(2 * (1 + LARGEST_BODY / OVERHEAD));
    fixture.list(&[engine("a")]);
    assert!(matches!(fixture.arrive_with("a", u64::MAX), Arrival::Waits(_)));
    assert!(matches!(fixture.arrive_with("a", LARGEST_BODY), Arrival::Waits(_)));
    assert_eq!(fixture.refused("a"), Refusal::Full);
}

#[test]
fn a_request_that_is_refused_because_the_queue_is_full_still_wakes_its_engine() {
    let mut fixture = Fixture::new(0);
    fixture.list(&[engine("a")]);
    assert_eq!(fixture.refused("a"), Refusal::Full);
    assert_eq!(fixture.patches.len(), 1);
}

#[test]
fn a_request_for_an_engine_that_was_just_reached_is_routed() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.probe(true);
    assert_eq!(fixture.routed("a"), Route::Reachable);
    assert!(fixture.probes.is_empty());
}

#[test]
fn a_request_for_a_stopping_engine_is_held_although_it_was_just_reached() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.advance(Duration::from_millis(900));
    fixture.probe(true);
    fixture.advance(Duration::from_millis(100));
    assert_eq!(fixture.routed("a"), Route::Reachable);
    fixture.list(&[engine("a")]);
    let waiter = fixture.wait("a");
    assert_eq!(fixture.patches.len(), 1, "a wake is requested");
    fixture.advance(Duration::from_millis(400));
    fixture.probe(true);
    assert!(fixture.released(&waiter), "its own probe releases it");
    fixture.wait("a");
}

#[test]
fn a_steady_stream_of_requests_during_a_rollout_is_held_only_once() {
    let rolling = [engine("a").starting()];
    let mut fixture = Fixture::with(&rolling);
    fixture.wait("a");
    fixture.probe(true);
    for _ in 0..100 {
        fixture.advance(Duration::from_millis(100));
        assert_eq!(fixture.routed("a"), Route::Reachable);
        while !fixture.probes.is_empty() {
            fixture.probe(true);
        }
        while !fixture.lists.is_empty() {
            fixture.list(&rolling);
        }
    }
}

#[test]
fn a_confirming_probe_survives_other_events() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.probe(true);
    fixture.advance(Duration::from_millis(500));
    fixture.routed("a");
    fixture.handle(Event::Tick);
    fixture.routed("a");
    assert_eq!(fixture.probes.len(), 1);
    fixture.probe(true);
    fixture.advance(Duration::from_millis(999));
    assert_eq!(fixture.routed("a"), Route::Reachable);
}

#[test]
fn an_engine_that_was_reached_a_second_ago_is_probed_again() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.probe(true);
    fixture.advance(Duration::from_secs(1));
    fixture.wait("a");
    assert_eq!(fixture.probes.len(), 1);
}

#[test]
fn a_request_for_an_engine_that_has_just_become_ready_is_held_with_the_others() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    let first = fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a").ready()]);
    let second = fixture.wait("a");
    fixture.probe(true);
    assert!(fixture.released(&first) && fixture.released(&second));
    assert_eq!(fixture.routed("a"), Route::Ready);
}

#[test]
fn a_request_for_an_engine_that_has_been_ready_for_long_is_routed_although_probes_fail() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    fixture.wait("a");
    fixture.advance_with(Duration::from_secs(10), &[engine("a").ready()]);
    assert_eq!(fixture.routed("a"), Route::Ready);
}
