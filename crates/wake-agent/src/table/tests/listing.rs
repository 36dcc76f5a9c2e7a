//! When engines are listed, and how long a list is believed.

use std::time::Duration;

use rstest::rstest;

use super::fixture::{Desk, engine};
use crate::table::{Answer, Event, Refusal, Route};

#[test]
fn engines_are_listed_every_second_while_requests_wait_and_every_five_otherwise() {
    let engines = [engine("a").starting()];
    let mut desk = Desk::with(&engines);
    desk.pass(Duration::from_millis(4_999));
    assert!(desk.lists.is_empty());
    desk.pass(Duration::from_millis(1));
    desk.list(&engines);
    desk.wait("a");
    for _ in 0..3 {
        assert!(desk.lists.is_empty());
        desk.pass(Duration::from_secs(1));
        desk.list(&engines);
    }
}

#[test]
fn a_request_makes_for_a_new_list_if_the_last_is_a_second_old() {
    let mut desk = Desk::with(&[engine("a").ready()]);
    desk.pass(Duration::from_millis(999));
    desk.passed("a");
    assert!(desk.lists.is_empty());
    desk.pass(Duration::from_millis(1));
    desk.passed("a");
    desk.passed("a");
    assert_eq!(desk.lists.len(), 1);
}

#[test]
fn unknown_names_make_for_four_lists_a_second_at_most() {
    let mut desk = Desk::with(&[]);
    let mut lists = 0;
    for millisecond in 0..1000 {
        desk.arrive(&format!("made-up-{millisecond}"));
        while !desk.lists.is_empty() {
            lists += 1;
            desk.list(&[]);
        }
        desk.pass(Duration::from_millis(1));
    }
    assert_eq!(lists, 3, "the first one was before");
}

#[rstest]
#[case::short(10, 40)]
#[case::long(400, 1_600)]
#[case::very_long(4_000, 2_000)]
fn the_api_server_is_left_alone_after_a_listing_for_longer_than_it_took(#[case] took: u64, #[case] rest: u64) {
    let mut desk = Desk::with(&[]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.lists.len(), 1);
    desk.pass(Duration::from_millis(took));
    desk.list(&[]);
    let ended = desk.now.monotonic;
    // Whoever asks, be it that the engine is unknown or that the list is old.
    while desk.lists.is_empty() {
        desk.arrive("unknown");
        desk.pass(Duration::from_millis(1));
    }
    let rested = desk.now.monotonic.saturating_duration_since(ended);
    assert!(rested >= Duration::from_millis(rest), "{rested:?}");
    assert!(rested <= Duration::from_millis(rest.max(250) + 1), "{rested:?}");
}

#[test]
fn a_failed_listing_or_two_change_nothing() {
    let mut desk = Desk::with(&[engine("a")]);
    desk.pass(Duration::from_secs(5));
    desk.list_fails();
    desk.pass(Duration::from_secs(1));
    desk.list_fails();
    desk.wait("a");
}

#[test]
fn everything_passes_after_ten_seconds_without_a_list() {
    let mut desk = Desk::with(&[engine("a"), engine("b").without_auto_stop()]);
    desk.pass(Duration::from_secs(5));
    for _ in 0..5 {
        desk.list_fails();
        desk.pass(Duration::from_secs(1));
    }
    for name in ["a", "b", "unknown"] {
        assert_eq!(desk.passed(name), Route::Blind);
    }
    desk.list(&[engine("a"), engine("b").without_auto_stop()]);
    assert_eq!(desk.refused("b"), Refusal::Stopped, "a list is believed again");
}

#[test]
fn those_who_wait_go_on_waiting_without_lists_and_are_released_by_a_probe() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    for _ in 0..30 {
        desk.pass(Duration::from_secs(1));
        while !desk.lists.is_empty() {
            desk.list_fails();
        }
    }
    assert_eq!(desk.told(&waiter), None);
    desk.probe(true);
    assert!(desk.released(&waiter));
}

#[test]
fn a_listing_that_was_given_up_says_nothing_any_more() {
    let mut desk = Desk::with(&[engine("a").ready()]);
    desk.pass(Duration::from_secs(5));
    let late = desk.lists.pop().expect("a listing");
    desk.pass(Duration::from_secs(7));
    assert_eq!(desk.lists.len(), 1, "another one is under way");
    desk.handle(Event::Listed(late, Some(Vec::new())));
    assert_eq!(desk.passed("a"), Route::Blind, "it is not even believed");
    desk.list(&[engine("a").ready()]);
    assert_eq!(desk.passed("a"), Route::Ready);
}

#[test]
fn an_engine_that_is_deleted_sends_those_who_wait_away() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[]);
    assert_eq!(desk.told(&waiter), Some(&Answer::Refuse(Refusal::NotFound)));
}

#[test]
fn an_engine_whose_auto_stop_is_turned_off_sends_those_who_wait_away() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a").without_auto_stop()]);
    assert_eq!(desk.told(&waiter), Some(&Answer::Refuse(Refusal::Stopped)));
}
