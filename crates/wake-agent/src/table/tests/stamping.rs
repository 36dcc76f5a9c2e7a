//! When an engine is asked for.

use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;

use super::fixture::{Desk, HOLD_TIMEOUT, engine};
use crate::table::{Answer, Event, PatchOutcome, Refusal};

#[test]
fn a_thousand_requests_for_a_stopped_engine_make_one_patch() {
    let mut desk = Desk::new(1000);
    desk.list(&[engine("a")]);
    for _ in 0..1000 {
        desk.wait("a");
    }
    assert_eq!(desk.patches.len(), 1);
    desk.patch(PatchOutcome::Stored);
    assert!(desk.patches.is_empty());
}

#[test]
fn the_stamp_is_the_time_of_day_in_milliseconds() {
    let mut desk = Desk::with(&[engine("a")]);
    desk.wait("a");
    assert_eq!(desk.patches[0].at.to_string(), "2026-06-01T12:00:00.123Z");
}

#[test]
fn an_engine_that_is_starting_is_not_stamped() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.pass_with(HOLD_TIMEOUT, &[engine("a").starting()]);
    assert!(desk.patches.is_empty());
}

#[test]
fn an_engine_that_stops_while_requests_wait_is_stamped() {
    let mut desk = Desk::with(&[engine("a").starting()]);
    desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a")]);
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn requests_that_keep_coming_renew_the_stamp_every_ten_seconds() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    let mut patches = 0;
    for _ in 0..100 {
        desk.arrive("a");
        while !desk.patches.is_empty() {
            patches += 1;
            desk.patch(PatchOutcome::Stored);
        }
        desk.pass_with(Duration::from_millis(500), &engines);
    }
    assert_eq!(patches, 5, "in fifty seconds");
}

#[test]
fn one_request_that_waits_renews_the_stamp_every_minute() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    desk.wait("a");
    desk.patch(PatchOutcome::Stored);
    desk.pass_with(Duration::from_millis(59_999), &engines);
    assert!(desk.patches.is_empty());
    desk.pass_with(Duration::from_millis(1), &engines);
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn a_stamp_is_not_renewed_for_clients_that_left() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    let waiter = desk.wait("a");
    desk.patch(PatchOutcome::Stored);
    desk.handle(Event::Left(waiter));
    desk.pass_with(Duration::from_mins(5), &engines);
    assert!(desk.patches.is_empty());
}

#[rstest]
#[case::of_just_now(0, 0)]
#[case::of_nine_seconds_ago(9, 0)]
#[case::of_ten_seconds_ago(10, 1)]
#[case::of_a_clock_a_minute_ahead(-60, 0)]
#[case::of_a_clock_further_ahead(-61, 1)]
fn a_stamp_of_somebody_else_counts_while_it_is_young(#[case] age: i64, #[case] patches: usize) {
    let mut desk = Desk::new(10);
    let stamped = engine("a").woken(desk.now.wall - SignedDuration::from_secs(age));
    desk.list(&[stamped]);
    desk.wait("a");
    assert_eq!(desk.patches.len(), patches);
}

#[test]
fn a_stamp_of_somebody_else_is_renewed_by_us_if_they_do_not() {
    let mut desk = Desk::new(10);
    let engines = [engine("a").woken(desk.now.wall)];
    desk.list(&engines);
    desk.wait("a");
    desk.pass_with(Duration::from_secs(59), &engines);
    assert!(desk.patches.is_empty());
    desk.pass_with(Duration::from_secs(1), &engines);
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn a_patch_that_fails_is_tried_again_ever_more_slowly() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    let waiter = desk.wait("a");
    for wait in [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        desk.patch(PatchOutcome::Failed);
        desk.pass_with(Duration::from_millis(wait - 1), &engines);
        assert!(desk.patches.is_empty());
        desk.pass_with(Duration::from_millis(1), &engines);
        assert_eq!(desk.patches.len(), 1);
    }
    desk.patch(PatchOutcome::Stored);
    assert_eq!(desk.told(&waiter), None);
    desk.pass_with(Duration::from_secs(59), &engines);
    assert!(desk.patches.is_empty());
}

#[test]
fn a_patch_that_does_not_end_is_given_up_and_tried_again() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    desk.wait("a");
    let lost = desk.patches.pop().expect("a patch");
    desk.pass_with(Duration::from_millis(5_500), &engines);
    assert_eq!(desk.patches.len(), 1);
    desk.handle(Event::Patched(lost, PatchOutcome::Refused));
    assert_eq!(desk.table.waiting(), 1, "what was given up sends nobody away");
}

#[test]
fn a_request_that_found_no_room_is_not_forgotten_if_the_patch_fails() {
    let engines = [engine("a")];
    let mut desk = Desk::new(0);
    desk.list(&engines);
    desk.refused("a");
    desk.patch(PatchOutcome::Failed);
    desk.pass_with(Duration::from_millis(500), &engines);
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn a_request_that_found_no_room_is_forgotten_after_the_time_it_would_have_waited() {
    let engines = [engine("a")];
    let mut desk = Desk::new(0);
    desk.list(&engines);
    desk.refused("a");
    desk.patch(PatchOutcome::Failed);
    while desk.patches.pop().is_some() || desk.table != desk_at_rest(&desk) {
        desk.pass_with(Duration::from_secs(5), &engines);
        assert!(desk.now.wall.to_string().as_str() < "2026-06-01T12:03");
    }
}

#[test]
fn an_engine_whose_auto_stop_is_turned_off_is_not_stamped_any_more() {
    let mut desk = Desk::new(0);
    desk.list(&[engine("a")]);
    desk.refused("a");
    desk.patch(PatchOutcome::Failed);
    desk.pass(Duration::from_millis(500));
    desk.patch(PatchOutcome::Failed);
    desk.pass(Duration::from_millis(500));
    desk.refused("a");
    let engines = [engine("a").without_auto_stop()];
    desk.list(&engines);
    desk.pass_with(Duration::from_secs(20), &engines);
    assert!(desk.patches.is_empty());
}

/// The same table without anything that is kept for an engine.
fn desk_at_rest(desk: &Desk) -> crate::table::Table {
    let mut table = desk.table.clone();
    table.holds.clear();
    table
}

#[test]
fn those_who_wait_for_an_engine_that_we_may_not_wake_are_refused_as_soon_as_that_is_known() {
    let mut desk = Desk::with(&[engine("a"), engine("b").starting()]);
    let (waiter, other) = (desk.wait("a"), desk.wait("b"));
    desk.patch(PatchOutcome::Refused);
    let wait = Duration::from_secs(10);
    assert_eq!(desk.told(&waiter), Some(&Answer::Refuse(Refusal::NotAllowed(wait))));
    assert_eq!(desk.told(&other), None);
    desk.pass(Duration::from_secs(4));
    assert_eq!(desk.refused("a"), Refusal::NotAllowed(Duration::from_secs(6)));
    assert!(desk.patches.is_empty());
}

#[test]
fn permission_is_tried_again_after_ten_seconds() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    desk.wait("a");
    desk.patch(PatchOutcome::Refused);
    desk.pass_with(Duration::from_secs(10), &engines);
    assert!(desk.patches.is_empty(), "not without a request");
    desk.wait("a");
    assert_eq!(desk.patches.len(), 1);
}

#[test]
fn an_engine_that_we_may_not_wake_is_waited_for_if_somebody_else_wakes_it() {
    let mut desk = Desk::with(&[engine("a")]);
    desk.wait("a");
    desk.patch(PatchOutcome::Refused);
    desk.pass(Duration::from_secs(5));
    desk.list(&[engine("a").woken(desk.now.wall)]);
    desk.wait("a");
    desk.pass(Duration::from_secs(1));
    desk.list(&[engine("a").starting()]);
    desk.wait("a");
    assert_eq!(desk.table.waiting(), 2);
}

#[test]
fn nothing_is_kept_of_an_engine_that_nobody_asks_for() {
    let engines = [engine("a")];
    let mut desk = Desk::with(&engines);
    let waiter = desk.wait("a");
    desk.patch(PatchOutcome::Stored);
    desk.handle(Event::Left(waiter));
    desk.pass_with(Duration::from_secs(20), &engines);
    assert_eq!(desk.table, desk_at_rest(&desk));
}
