//! What happens to requests at their deadline.

use std::time::Duration;

use super::fixture::{Fixture, HOLD_TIMEOUT, engine};
use crate::hold::{Answer, Event, FINAL_PROBE, Refusal};

const INSTANT: Duration = Duration::from_millis(1);

/// A moment less than that.
fn almost(time: Duration) -> Duration {
    time.saturating_sub(INSTANT)
}

fn timed_out(fixture: &Fixture, waiter: &crate::hold::WaiterId) -> bool {
    matches!(fixture.answer_to(waiter), Some(Answer::Refuse(Refusal::TimedOut(_))))
}

#[test]
fn a_request_times_out_at_its_deadline_and_not_before() {
    let engines = [engine("a").starting()];
    let mut fixture = Fixture::with(&engines);
    let first = fixture.wait("a");
    fixture.advance_with(Duration::from_secs(1), &engines);
    let second = fixture.wait("a");
    fixture.advance_with(almost(Duration::from_secs(119)), &engines);
    assert_eq!(fixture.answer_to(&first), None);
    fixture.advance_with(INSTANT, &engines);
    assert!(timed_out(&fixture, &first));
    assert_eq!(fixture.answer_to(&second), None);
    fixture.advance_with(Duration::from_secs(1), &engines);
    assert!(timed_out(&fixture, &second));
    assert_eq!(fixture.state.occupancy().waiting, 0);
}

#[test]
fn a_final_probe_starts_before_a_request_times_out() {
    let engines = [engine("a").starting()];
    let mut fixture = Fixture::with(&engines);
    // Out of step with the regular probes.
    fixture.wait("a");
    fixture.advance_with(Duration::from_millis(200), &engines);
    let waiter = fixture.wait("a");
    fixture.advance_with(almost(HOLD_TIMEOUT.saturating_sub(FINAL_PROBE)), &engines);
    assert!(fixture.probes.is_empty());
    fixture.advance(INSTANT);
    assert_eq!(fixture.probes.len(), 1);
    fixture.advance(almost(FINAL_PROBE));
    fixture.probe(true);
    assert!(fixture.released(&waiter));
}

#[test]
fn a_request_for_an_engine_that_reports_ready_is_routed_at_its_deadline() {
    let mut fixture = Fixture::with(&[engine("a").starting()]);
    let waiter = fixture.wait("a");
    fixture.advance_with(almost(HOLD_TIMEOUT), &[engine("a").ready()]);
    assert_eq!(fixture.answer_to(&waiter), None);
    fixture.advance_with(INSTANT, &[engine("a").ready()]);
    assert!(fixture.released(&waiter));
}

#[test]
fn a_deadline_holds_without_any_result() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    fixture.advance(HOLD_TIMEOUT);
    assert!(timed_out(&fixture, &waiter));
}

#[test]
fn a_stopping_gateway_starts_a_final_probe_and_refuses_held_requests() {
    let engines = [engine("a").starting()];
    let mut fixture = Fixture::with(&engines);
    let waiter = fixture.wait("a");
    let by = fixture.now.monotonic + Duration::from_secs(10);
    fixture.handle(Event::Closing(by));
    fixture.advance_with(Duration::from_millis(9_700), &engines);
    let late = fixture.wait("a");
    fixture.probes.clear();
    fixture.advance(Duration::from_millis(50));
    assert_eq!(fixture.probes.len(), 1);
    fixture.advance(FINAL_PROBE);
    for waiter in [&waiter, &late] {
        assert!(matches!(
            fixture.answer_to(waiter),
            Some(Answer::Refuse(Refusal::Closing(_)))
        ));
    }
}

#[test]
fn a_stopping_gateway_keeps_earlier_deadlines() {
    let mut fixture = Fixture::with(&[engine("a")]);
    let waiter = fixture.wait("a");
    fixture.handle(Event::Closing(fixture.now.monotonic + HOLD_TIMEOUT + INSTANT));
    fixture.advance(HOLD_TIMEOUT);
    assert!(timed_out(&fixture, &waiter));
}
