//! What happens to requests whose time is over.

use std::time::Duration;

use super::fixture::{Desk, HOLD_TIMEOUT, engine};
use crate::table::{Answer, Event, LAST_LOOK, Refusal};

const MOMENT: Duration = Duration::from_millis(1);

/// A moment less than that.
fn almost(time: Duration) -> Duration {
    time.saturating_sub(MOMENT)
}

fn timed_out(desk: &Desk, waiter: &crate::table::WaiterId) -> bool {
    matches!(desk.told(waiter), Some(Answer::Refuse(Refusal::TimedOut(_))))
}

#[test]
fn a_request_is_sent_away_at_its_deadline_and_not_before() {
    let engines = [engine("a").starting()];
    let mut desk = Desk::with(&engines);
    let first = desk.wait("a");
    desk.pass_with(Duration::from_secs(1), &engines);
    let second = desk.wait("a");
    desk.pass_with(almost(Duration::from_secs(119)), &engines);
    assert_eq!(desk.told(&first), None);
    desk.pass_with(MOMENT, &engines);
    assert!(timed_out(&desk, &first));
    assert_eq!(desk.told(&second), None);
    desk.pass_with(Duration::from_secs(1), &engines);
    assert!(timed_out(&desk, &second));
    assert_eq!(desk.table.waiting(), 0);
}

#[test]
fn a_last_look_is_taken_before_a_request_is_sent_away() {
    let engines = [engine("a").starting()];
    let mut desk = Desk::with(&engines);
    // Out of step with the regular probes.
    desk.wait("a");
    desk.pass_with(Duration::from_millis(200), &engines);
    let waiter = desk.wait("a");
    desk.pass_with(almost(HOLD_TIMEOUT.saturating_sub(LAST_LOOK)), &engines);
    assert!(desk.probes.is_empty());
    desk.pass(MOMENT);
    assert_eq!(desk.probes.len(), 1);
    desk.pass(almost(LAST_LOOK));
    desk.probe(true);
    assert!(desk.released(&waiter));
}

#[test]
fn a_request_for_an_engine_that_calls_itself_ready_is_left_to_envoy_at_its_deadline() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    let waiter = desk.wait("a");
    desk.pass_with(almost(HOLD_TIMEOUT), &[engine("a").ready()]);
    assert_eq!(desk.told(&waiter), None);
    desk.pass_with(MOMENT, &[engine("a").ready()]);
    assert!(desk.released(&waiter));
}

#[test]
fn a_deadline_holds_although_nothing_ever_comes_back() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    desk.pass(HOLD_TIMEOUT);
    assert!(timed_out(&desk, &waiter));
}

#[test]
fn a_gateway_that_stops_takes_a_last_look_and_sends_everybody_away() {
    let engines = [engine("a").starting()];
    let mut desk = Desk::with(&engines);
    let waiter = desk.wait("a");
    let by = desk.now.monotonic + Duration::from_secs(10);
    desk.handle(Event::Closing(by));
    desk.pass_with(Duration::from_millis(9_700), &engines);
    let late = desk.wait("a");
    desk.probes.clear();
    desk.pass(Duration::from_millis(50));
    assert_eq!(desk.probes.len(), 1);
    desk.pass(LAST_LOOK);
    for waiter in [&waiter, &late] {
        assert!(matches!(desk.told(waiter), Some(Answer::Refuse(Refusal::Closing(_)))));
    }
}

#[test]
fn a_gateway_that_stops_keeps_deadlines_that_are_earlier() {
    let mut desk = Desk::with(&[engine("a")]);
    let waiter = desk.wait("a");
    desk.handle(Event::Closing(desk.now.monotonic + HOLD_TIMEOUT + MOMENT));
    desk.pass(HOLD_TIMEOUT);
    assert!(timed_out(&desk, &waiter));
}
