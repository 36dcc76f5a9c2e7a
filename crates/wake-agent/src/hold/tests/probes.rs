//! When probes start, and what they release.

use std::time::Duration;

use super::fixture::{Fixture, engine};
use crate::hold::{Answer, Event, Route};

#[test]
fn a_probe_starts_with_the_first_request_and_releases_all() {
    let mut fixture = Fixture::with(&[engine("a").starting(), engine("b").starting()]);
    let waiters: Vec<_> = (0..5).map(|_| fixture.wait("a")).collect();
    let other = fixture.wait("b");
    assert_eq!(fixture.probes.len(), 2);
    let of_a = fixture.probes.remove(0);
    fixture.handle(Event::Probed(of_a, true));
    for waiter in &waiters {
        assert!(fixture.released(waiter));
    }
    assert_eq!(
        fixture.answer_to(&other),
        None,
        "a probe releases only requests for its engine"
    );
}

#[test]
fn an_engine_that_reports_ready_is_probed_before_requests_are_released() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_millis(700));
    fixture.probe(false);
    fixture.probe(false);
    fixture.advance(Duration::from_millis(300));
    assert!(fixture.probes.is_empty());
    fixture.list(&[engine("a").ready()]);
    assert_eq!(fixture.answer_to(&waiter), None);
    assert_eq!(fixture.probes.len(), 1, "at once");
    for _ in 0..3 {
        fixture.probe(false);
        assert!(fixture.probes.is_empty());
        fixture.advance(Duration::from_millis(100));
    }
    fixture.probe(true);
    assert!(fixture.released(&waiter));
}

#[test]
fn an_engine_that_does_not_report_ready_is_probed_twice_a_second() {
    let engines = [engine("a")];
    let mut fixture = Fixture::with(&engines);
    fixture.wait("a");
    for _ in 0..4 {
        fixture.probe(false);
        fixture.advance(Duration::from_millis(499));
        assert!(fixture.probes.is_empty());
        fixture.advance(Duration::from_millis(1));
        while !fixture.lists.is_empty() {
            fixture.list(&engines);
        }
    }
    assert_eq!(fixture.probes.len(), 1);
}

#[test]
fn a_probe_that_times_out_is_followed_by_another_one() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    let lost = fixture.probes.pop().expect("a probe");
    fixture.advance(Duration::from_secs(2));
    assert_eq!(fixture.probes.len(), 1);
    fixture.handle(Event::Probed(lost, true));
    assert_eq!(
        fixture.answer_to(&waiter),
        None,
        "the result of a probe that timed out releases nothing"
    );
    fixture.probe(true);
    assert!(fixture.released(&waiter));
}

#[test]
fn a_probe_for_clients_that_disconnected_does_not_release_later_requests() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let gone = fixture.wait("a");
    let late = fixture.probes.pop().expect("a probe");
    fixture.handle(Event::Left(gone.clone()));
    let waiter = fixture.wait("a");
    fixture.handle(Event::Probed(late, true));
    assert_eq!(fixture.answer_to(&waiter), None);
    assert_eq!(fixture.answer_to(&gone), None);
    fixture.advance(Duration::from_secs(1));
    fixture.probe(true);
    assert!(fixture.released(&waiter), "and the later request is still probed for");
}

#[test]
fn clients_that_come_and_go_cause_at_most_ten_probes_a_second() {
    let mut fixture = Fixture::with(&[engine("a")]);
    for _ in 0..1000 {
        let waiter = fixture.wait("a");
        fixture.handle(Event::Left(waiter));
        fixture.advance(Duration::from_millis(1));
    }
    assert!(fixture.probes.len() <= 10, "{}", fixture.probes.len());
}

#[test]
fn a_duplicate_or_late_disconnect_changes_nothing() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let one = fixture.wait("a");
    let other = fixture.wait("a");
    fixture.handle(Event::Left(one.clone()));
    fixture.handle(Event::Left(one));
    assert_eq!(fixture.state.occupancy().waiting, 1);
    fixture.probe(true);
    assert!(fixture.released(&other));
    fixture.handle(Event::Left(other));
    assert_eq!(fixture.state.occupancy().waiting, 0);
}

#[test]
fn a_release_contains_the_stages_of_the_wake() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a").starting()]);
    fixture.advance(Duration::from_secs(1));
    fixture.list(&[engine("a").ready()]);
    fixture.advance(Duration::from_millis(200));
    fixture.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = fixture.answer_to(&waiter) else {
        panic!("{:?}", fixture.answer_to(&waiter));
    };
    assert_eq!(stages.detected, Duration::ZERO);
    assert_eq!(stages.scaled, Some(Duration::from_secs(1)));
    assert_eq!(stages.ready, Some(Duration::from_secs(2)));
    assert_eq!(stages.released, Duration::from_millis(2_200));
}

#[test]
fn a_stage_before_the_arrival_of_a_request_counts_as_zero() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_millis(40));
    fixture.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = fixture.answer_to(&waiter) else {
        panic!("{:?}", fixture.answer_to(&waiter));
    };
    assert_eq!((stages.scaled, stages.ready), (Some(Duration::ZERO), None));
}

#[test]
fn the_stages_include_the_wait_for_a_list() {
    let mut fixture = Fixture::with(&[]);
    fixture.advance(Duration::from_secs(1));
    let waiter = fixture.wait("a");
    fixture.advance(Duration::from_millis(30));
    fixture.list(&[engine("a").starting()]);
    fixture.advance(Duration::from_millis(10));
    fixture.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = fixture.answer_to(&waiter) else {
        panic!("{:?}", fixture.answer_to(&waiter));
    };
    assert_eq!(stages.detected, Duration::from_millis(30));
    assert_eq!(stages.released, Duration::from_millis(40));
}
