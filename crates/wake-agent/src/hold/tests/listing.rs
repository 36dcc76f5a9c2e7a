//! When the engines are listed, and how long a list is valid.

use std::time::Duration;

use rstest::rstest;

use super::fixture::{Fixture, engine};
use crate::hold::{Answer, Event, Refusal, Route};

#[test]
fn engines_are_listed_every_second_while_requests_are_held_and_every_five_otherwise() {
    let engines = [engine("a").starting()];
    let mut fixture = Fixture::with(&engines);
    fixture.advance(Duration::from_millis(4_999));
    assert!(fixture.lists.is_empty());
    fixture.advance(Duration::from_millis(1));
    fixture.list(&engines);
    fixture.wait("a");
    for _ in 0..3 {
        assert!(fixture.lists.is_empty());
        fixture.advance(Duration::from_secs(1));
        fixture.list(&engines);
    }
}

#[test]
fn a_request_starts_a_listing_if_the_last_one_is_a_second_old() {
    let mut fixture = Fixture::with(&[engine("a").ready()]);
    fixture.advance(Duration::from_millis(999));
    fixture.routed("a");
    assert!(fixture.lists.is_empty());
    fixture.advance(Duration::from_millis(1));
    fixture.routed("a");
    fixture.routed("a");
    assert_eq!(fixture.lists.len(), 1);
}

#[test]
fn unknown_engines_cause_at_most_four_listings_a_second() {
    let mut fixture = Fixture::with(&[]);
    let mut lists = 0;
    for millisecond in 0..1000 {
        fixture.arrive(&format!("made-up-{millisecond}"));
        while !fixture.lists.is_empty() {
            lists += 1;
            fixture.list(&[]);
        }
        fixture.advance(Duration::from_millis(1));
    }
    assert_eq!(lists, 3, "the first one was before");
}

#[rstest]
#[case::short(10, 40)]
#[case::long(400, 1_600)]
#[case::very_long(4_000, 2_000)]
fn the_cooldown_after_a_listing_depends_on_its_duration(#[case] took: u64, #[case] cooldown: u64) {
    let mut fixture = Fixture::with(&[]);
    fixture.advance(Duration::from_secs(5));
    assert_eq!(fixture.lists.len(), 1);
    fixture.advance(Duration::from_millis(took));
    fixture.list(&[]);
    let ended = fixture.now.monotonic;
    // Whether the engine is unknown or the list is old.
    while fixture.lists.is_empty() {
        fixture.arrive("unknown");
        fixture.advance(Duration::from_millis(1));
    }
    let paused = fixture.now.monotonic.saturating_duration_since(ended);
    assert!(paused >= Duration::from_millis(cooldown), "{paused:?}");
    assert!(paused <= Duration::from_millis(cooldown.max(250) + 1), "{paused:?}");
}

#[test]
fn one_or_two_failed_listings_change_nothing() {
    let mut fixture = Fixture::with(&[engine("a")]);
    fixture.advance(Duration::from_secs(5));
    fixture.list_fails();
    fixture.advance(Duration::from_secs(1));
    fixture.list_fails();
    fixture.wait("a");
}

#[test]
fn everything_is_routed_after_ten_seconds_without_a_list() {
    let mut fixture = Fixture::with(&[engine("a"), engine("b").without_auto_stop()]);
    fixture.advance(Duration::from_secs(5));
    for _ in 0..5 {
        fixture.list_fails();
        fixture.advance(Duration::from_secs(1));
    }
    for name in ["a", "b", "unknown"] {
        assert_eq!(fixture.routed(name), Route::FailOpen);
    }
    fixture.list(&[engine("a"), engine("b").without_auto_stop()]);
    assert_eq!(fixture.refused("b"), Refusal::Stopped, "the list is valid again");
}

#[test]
fn requests_stay_held_while_listings_fail_and_are_released_by_a_probe() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    for _ in 0..30 {
        fixture.advance(Duration::from_secs(1));
        while !fixture.lists.is_empty() {
            fixture.list_fails();
        }
    }
    assert_eq!(fixture.answer_to(&waiter), None);
    fixture.probe(true);
    assert!(fixture.released(&waiter));
}

#[test]
fn the_result_of_a_listing_that_timed_out_is_ignored() {
    let mut fixture = Fixture::with(&[engine("a").ready()]);
    fixture.advance(Duration::from_secs(5));
    let late = fixture.lists.pop().expect("a listing");
    fixture.advance(Duration::from_secs(7));
    assert_eq!(fixture.lists.len(), 1, "another one is in flight");
    fixture.handle(Event::Listed(late, Some(Vec::new())));
    assert_eq!(fixture.routed("a"), Route::FailOpen, "the list is too old");
    fixture.list(&[engine("a").ready()]);
    assert_eq!(fixture.routed("a"), Route::Ready);
}

#[test]
fn held_requests_are_refused_when_their_engine_is_deleted() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[]);
    assert_eq!(fixture.answer_to(&waiter), Some(&Answer::Refuse(Refusal::NotFound)));
}

#[test]
fn held_requests_are_refused_when_auto_stop_is_turned_off() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a").without_auto_stop()]);
    assert_eq!(fixture.answer_to(&waiter), Some(&Answer::Refuse(Refusal::Stopped)));
}
