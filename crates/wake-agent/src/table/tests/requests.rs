//! What a request gets when it comes.

use std::time::Duration;

use rstest::rstest;

use super::fixture::{Desk, engine};
use crate::table::{Answer, Arrival, Event, LARGEST_BODY, OVERHEAD, Refusal, Route};

#[rstest]
#[case("")]
#[case("../secrets")]
#[case("Analytics")]
fn a_name_that_no_engine_can_have_is_refused_before_anything_is_known(#[case] name: &str) {
    assert_eq!(Desk::new(10).refused(name), Refusal::Malformed);
}

#[test]
fn everything_passes_before_the_first_list() {
    assert_eq!(Desk::new(10).passed("a"), Route::Blind);
}

#[test]
fn a_ready_engine_passes_and_nothing_else_happens() {
    let mut desk = Desk::with(&[engine("a").ready()]);
    assert_eq!(desk.passed("a"), Route::Ready);
    assert!(desk.lists.is_empty() && desk.probes.is_empty() && desk.patches.is_empty());
    assert_eq!(desk.table.waiting(), 0);
}

#[test]
fn an_unknown_name_waits_for_one_newer_list_together_with_others() {
    let mut desk = Desk::with(&[]);
    desk.pass(Duration::from_millis(300));
    let (one, other) = (desk.wait("a"), desk.wait("b"));
    assert_eq!(desk.lists.len(), 1);
    desk.list(&[engine("b").ready()]);
    assert_eq!(desk.told(&one), Some(&Answer::Refuse(Refusal::NotFound)));
    assert_eq!(desk.told(&other), Some(&Answer::Route(Route::Ready)));
    assert!(desk.probes.is_empty(), "a made-up name costs Envoy nothing");
}

#[test]
fn a_list_that_began_before_the_request_does_not_say_that_there_is_no_engine() {
    let mut desk = Desk::with(&[]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.lists.len(), 1);
    desk.pass(Duration::from_millis(1));
    let waiter = desk.wait("new");
    desk.list(&[]);
    assert_eq!(desk.told(&waiter), None);
    desk.pass(Duration::from_millis(250));
    desk.list(&[engine("new").starting()]);
    assert_eq!(desk.told(&waiter), None);
    desk.probe(true);
    assert!(desk.released(&waiter));
}

#[test]
fn an_engine_of_another_instance_cannot_be_told_from_none() {
    let others = [engine("a").of("other"), engine("b").ready().of("other")];
    let mut desk = Desk::with(&others);
    let waiters = [desk.wait("a"), desk.wait("b"), desk.wait("c")];
    desk.pass(Duration::from_millis(250));
    desk.list(&others);
    for waiter in &waiters {
        assert_eq!(desk.told(waiter), Some(&Answer::Refuse(Refusal::NotFound)));
    }
    assert!(desk.patches.is_empty() && desk.probes.is_empty());
}

#[test]
fn an_unknown_name_passes_if_the_list_cannot_be_had() {
    let mut desk = Desk::with(&[]);
    desk.pass(Duration::from_secs(1));
    let waiter = desk.wait("a");
    desk.list_fails();
    assert_eq!(desk.told(&waiter), Some(&Answer::Route(Route::Blind)));
}

#[test]
fn an_unknown_name_passes_if_the_list_does_not_come() {
    let mut desk = Desk::with(&[]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.told(&waiter), Some(&Answer::Route(Route::Blind)));
    assert_eq!(desk.table.waiting(), 0);
}

#[test]
fn made_up_names_take_up_a_quarter_of_the_room_and_are_forgotten() {
    let mut desk = Desk::with(&[engine("real")]);
    for name in 0..3 {
        desk.wait(&format!("made-up-{name}"));
    }
    for name in 3..1_000_000 {
        assert_eq!(desk.refused(&format!("made-up-{name}")), Refusal::Full);
    }
    desk.wait("real");
    desk.pass(Duration::from_millis(250));
    desk.list(&[engine("real"), engine("new").ready()]);
    assert_eq!(desk.table.waiting(), 1);
    assert_eq!(desk.passed("new"), Route::Ready, "no name is locked out by others");
}

#[test]
fn a_stopped_engine_without_auto_stop_is_refused_at_once() {
    let mut desk = Desk::with(&[engine("a").without_auto_stop()]);
    assert_eq!(desk.refused("a"), Refusal::Stopped);
    assert!(desk.patches.is_empty() && desk.probes.is_empty());
}

#[test]
fn an_engine_without_auto_stop_that_is_starting_is_waited_for() {
    let mut desk = Desk::with(&[engine("a").starting().without_auto_stop()]);
    desk.wait("a");
    assert!(desk.patches.is_empty());
}

#[test]
fn a_stopped_engine_that_the_operator_has_not_looked_at_yet_is_woken() {
    let mut unseen = engine("a");
    unseen.auto_stop = None;
    let mut desk = Desk::with(&[unseen]);
    desk.wait("a");
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn no_more_requests_wait_than_there_is_room_for() {
    let mut desk = Desk::with(&[engine("a"), engine("b")]);
    let waiters: Vec<_> = (0..12).map(|_| desk.wait("a")).collect();
    assert_eq!(desk.refused("a"), Refusal::Full);
    assert_eq!(desk.refused("b"), Refusal::Full);
    desk.handle(Event::Left(waiters[0].clone()));
    desk.wait("b");
}

#[test]
fn a_large_request_takes_the_room_of_many_small_ones() {
    let mut desk = Desk::with(&[engine("a")]);
    assert!(matches!(desk.arrive_with("a", 9 * OVERHEAD), Arrival::Waits(_)));
    assert_eq!(desk.table.waiting_bytes(), 10 * OVERHEAD);
    let full = Arrival::Answered(Answer::Refuse(Refusal::Full));
    assert_eq!(desk.arrive_with("a", OVERHEAD + 1), full);
    assert!(matches!(desk.arrive_with("a", OVERHEAD), Arrival::Waits(_)));
    assert_eq!(desk.arrive_with("a", 0), full);
    assert_eq!((desk.table.waiting(), desk.table.waiting_bytes()), (2, 12 * OVERHEAD));
}

#[test]
fn no_request_counts_for_more_than_envoy_keeps_of_it() {
    let mut desk = Desk::new(2 * (1 + LARGEST_BODY / OVERHEAD));
    desk.list(&[engine("a")]);
    assert!(matches!(desk.arrive_with("a", u64::MAX), Arrival::Waits(_)));
    assert!(matches!(desk.arrive_with("a", LARGEST_BODY), Arrival::Waits(_)));
    assert_eq!(desk.refused("a"), Refusal::Full);
}

#[test]
fn a_request_that_finds_no_room_still_wakes_its_engine() {
    let mut desk = Desk::new(0);
    desk.list(&[engine("a")]);
    assert_eq!(desk.refused("a"), Refusal::Full);
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn an_engine_that_is_not_ready_but_was_reached_a_moment_ago_passes() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.probe(true);
    assert_eq!(desk.passed("a"), Route::Reachable);
    assert!(desk.probes.is_empty());
}

#[test]
fn an_engine_that_is_being_stopped_does_not_pass_because_it_was_reached() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.pass(Duration::from_millis(900));
    desk.probe(true);
    desk.pass(Duration::from_millis(100));
    assert_eq!(desk.passed("a"), Route::Reachable);
    desk.list(&[engine("a")]);
    let waiter = desk.wait("a");
    assert_eq!(desk.patches.len(), 1, "it is asked for");
    desk.pass(Duration::from_millis(400));
    desk.probe(true);
    assert!(desk.released(&waiter), "a look of its own lets it go");
    desk.wait("a");
}

#[test]
fn a_steady_stream_to_an_engine_in_a_rollout_never_waits_again() {
    let rolling = [engine("a").starting()];
    let mut desk = Desk::with(&rolling);
    desk.wait("a");
    desk.probe(true);
    for _ in 0..100 {
        desk.pass(Duration::from_millis(100));
        assert_eq!(desk.passed("a"), Route::Reachable);
        while !desk.probes.is_empty() {
            desk.probe(true);
        }
        while !desk.lists.is_empty() {
            desk.list(&rolling);
        }
    }
}

#[test]
fn a_probe_that_keeps_requests_passing_is_not_lost_when_something_else_happens() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.probe(true);
    desk.pass(Duration::from_millis(500));
    desk.passed("a");
    desk.handle(Event::Tick);
    desk.passed("a");
    assert_eq!(desk.probes.len(), 1);
    desk.probe(true);
    desk.pass(Duration::from_millis(999));
    assert_eq!(desk.passed("a"), Route::Reachable);
}

#[test]
fn an_engine_that_was_reached_some_time_ago_is_probed_again() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.probe(true);
    desk.pass(Duration::from_secs(1));
    desk.wait("a");
    assert_eq!(desk.probes.len(), 1);
}

#[test]
fn a_request_joins_those_that_wait_for_envoy_to_notice_a_ready_engine() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    let first = desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a").ready()]);
    let second = desk.wait("a");
    desk.probe(true);
    assert!(desk.released(&first) && desk.released(&second));
    assert_eq!(desk.passed("a"), Route::Ready);
}

#[test]
fn a_request_to_an_engine_that_is_long_ready_passes_although_probes_fail() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.pass_with(Duration::from_secs(10), &[engine("a").ready()]);
    assert_eq!(desk.passed("a"), Route::Ready);
}
