//! When requests that wait are let go.

use std::time::Duration;

use super::fixture::{Desk, engine};
use crate::table::{Answer, Event, Route};

#[test]
fn a_probe_begins_with_the_first_request_and_serves_all() {
    let mut desk = Desk::with(&[engine("a").starting(), engine("b").starting()]);
    let waiters: Vec<_> = (0..5).map(|_| desk.wait("a")).collect();
    let other = desk.wait("b");
    assert_eq!(desk.probes.len(), 2);
    let of_a = desk.probes.remove(0);
    desk.handle(Event::Probed(of_a, true));
    for waiter in &waiters {
        assert!(desk.released(waiter));
    }
    assert_eq!(desk.told(&other), None, "an engine is not reached through another");
}

#[test]
fn an_engine_that_calls_itself_ready_is_probed_and_not_believed() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_millis(700));
    desk.probe(false);
    desk.probe(false);
    desk.pass(Duration::from_millis(300));
    assert!(desk.probes.is_empty());
    desk.list(&[engine("a").ready()]);
    assert_eq!(desk.told(&waiter), None);
    assert_eq!(desk.probes.len(), 1, "at once");
    for _ in 0..3 {
        desk.probe(false);
        assert!(desk.probes.is_empty());
        desk.pass(Duration::from_millis(100));
    }
    desk.probe(true);
    assert!(desk.released(&waiter));
}

#[test]
fn an_engine_that_does_not_call_itself_ready_is_probed_twice_a_second() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    desk.wait("a");
    for _ in 0..4 {
        desk.probe(false);
        desk.pass(Duration::from_millis(499));
        assert!(desk.probes.is_empty());
        desk.pass(Duration::from_millis(1));
        while !desk.lists.is_empty() {
            desk.list(&engines);
        }
    }
    assert_eq!(desk.probes.len(), 1);
}

#[test]
fn a_probe_that_does_not_end_is_given_up_and_another_one_begins() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    let lost = desk.probes.pop().expect("a probe");
    desk.pass(Duration::from_secs(2));
    assert_eq!(desk.probes.len(), 1);
    desk.handle(Event::Probed(lost, true));
    assert_eq!(desk.told(&waiter), None, "news that were given up release nobody");
    desk.probe(true);
    assert!(desk.released(&waiter));
}

#[test]
fn a_probe_for_those_who_left_does_not_release_those_who_come_later() {
    let mut desk = Desk::with(&[engine("a")]);
    let gone = desk.wait("a");
    let late = desk.probes.pop().expect("a probe");
    desk.handle(Event::Left(gone.clone()));
    let waiter = desk.wait("a");
    desk.handle(Event::Probed(late, true));
    assert_eq!(desk.told(&waiter), None);
    assert_eq!(desk.told(&gone), None);
    desk.pass(Duration::from_secs(1));
    desk.probe(true);
    assert!(desk.released(&waiter), "and does not strand them either");
}

#[test]
fn clients_that_come_and_go_cause_ten_probes_a_second_at_most() {
    let mut desk = Desk::with(&[engine("a")]);
    for _ in 0..1000 {
        let waiter = desk.wait("a");
        desk.handle(Event::Left(waiter));
        desk.pass(Duration::from_millis(1));
    }
    assert!(desk.probes.len() <= 10, "{}", desk.probes.len());
}

#[test]
fn a_client_that_leaves_twice_or_late_changes_nothing() {
    let mut desk = Desk::with(&[engine("a")]);
    let one = desk.wait("a");
    let other = desk.wait("a");
    desk.handle(Event::Left(one.clone()));
    desk.handle(Event::Left(one));
    assert_eq!(desk.table.waiting(), 1);
    desk.probe(true);
    assert!(desk.released(&other));
    desk.handle(Event::Left(other));
    assert_eq!(desk.table.waiting(), 0);
}

#[test]
fn a_release_tells_when_what_was_seen() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a").starting()]);
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a").ready()]);
    desk.pass(Duration::from_millis(200));
    desk.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = desk.told(&waiter) else {
        panic!("{:?}", desk.told(&waiter));
    };
    assert_eq!(stages.detected, Duration::ZERO);
    assert_eq!(stages.scaled, Some(Duration::from_secs(1)));
    assert_eq!(stages.ready, Some(Duration::from_secs(2)));
    assert_eq!(stages.released, Duration::from_millis(2_200));
}

#[test]
fn what_was_so_before_a_request_came_took_it_no_time() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    let waiter = desk.wait("a");
    desk.pass(Duration::from_millis(40));
    desk.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = desk.told(&waiter) else {
        panic!("{:?}", desk.told(&waiter));
    };
    assert_eq!((stages.scaled, stages.ready), (Some(Duration::ZERO), None));
}

#[test]
fn the_wait_for_a_list_is_part_of_what_is_told() {
    let mut desk = Desk::with(&[]);
    desk.pass(Duration::from_secs(1));
    let waiter = desk.wait("a");
    desk.pass(Duration::from_millis(30));
    desk.list(&[engine("a").starting()]);
    desk.pass(Duration::from_millis(10));
    desk.probe(true);
    let Some(Answer::Route(Route::Released(stages))) = desk.told(&waiter) else {
        panic!("{:?}", desk.told(&waiter));
    };
    assert_eq!(stages.detected, Duration::from_millis(30));
    assert_eq!(stages.released, Duration::from_millis(40));
}
