use rstest::rstest;

use super::*;

const TIMING: Timing = Timing {
    duration: Duration::from_secs(15),
};
const ME: &str = "me";

fn claim() -> Claim {
    Claim {
        holder: ME.to_owned(),
        acquired: Timestamp::UNIX_EPOCH,
        transitions: 3,
    }
}

fn held_by(holder: &str) -> LeaseRecord {
    LeaseRecord {
        holder: Some(holder.to_owned()),
        acquired: Some(Timestamp::UNIX_EPOCH),
        renewed: Some(Timestamp::UNIX_EPOCH),
        transitions: 3,
        duration: Some(TIMING.duration),
    }
}

fn released() -> LeaseRecord {
    LeaseRecord {
        holder: None,
        ..held_by("no-one")
    }
}

fn renewed(record: LeaseRecord) -> LeaseRecord {
    LeaseRecord {
        renewed: Some(Timestamp::UNIX_EPOCH + Duration::from_secs(1)),
        ..record
    }
}

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

/// Decides for a candidate that first saw `record` at second 0.
fn candidate(record: Option<LeaseRecord>, live: bool, at: f64) -> ElectionStep {
    let start = Instant::now();
    let seen = ObservedLease {
        record,
        changed: start,
        promised_until: None,
        live,
    };
    let step = decide(
        Some(&seen),
        &Standing::Candidate { sent: None },
        TIMING,
        None,
        start + seconds(at),
    );
    relative(step, start)
}

/// Decides for a leader whose last renewal was begun at second 0.
fn leader(record: Option<LeaseRecord>, live: bool, at: f64) -> ElectionStep {
    let start = Instant::now();
    let seen = ObservedLease {
        record,
        changed: start,
        promised_until: None,
        live,
    };
    let standing = Standing::Leading {
        claim: claim(),
        renewed: start,
    };
    relative(decide(Some(&seen), &standing, TIMING, None, start + seconds(at)), start)
}

thread_local! {
    static ZERO: Instant = Instant::now();
}

/// Makes the times of steps comparable: they count from one fixed instant.
fn relative(step: ElectionStep, start: Instant) -> ElectionStep {
    match step {
        ElectionStep::Wait(until) => wait((until - start).as_secs_f64()),
        other => other,
    }
}

fn wait(until: f64) -> ElectionStep {
    ElectionStep::Wait(ZERO.with(|zero| *zero) + seconds(until))
}

#[test]
fn a_new_candidate_reads_the_lease_first() {
    let now = Instant::now();
    assert_eq!(
        decide(None, &Standing::Candidate { sent: None }, TIMING, None, now),
        ElectionStep::Request(Request::Read)
    );
}

#[rstest]
#[case::no_lease_is_created(None, true, 0.0, ElectionStep::Request(Request::Create))]
#[case::a_missing_lease_is_read_again_first(None, false, 0.0, ElectionStep::Request(Request::Read))]
#[case::a_released_lease_is_taken_at_once(Some(released()), true, 0.0, ElectionStep::Request(Request::Acquire))]
#[case::a_released_lease_is_read_again_first(Some(released()), false, 0.0, ElectionStep::Request(Request::Read))]
#[case::a_held_lease_is_waited_for(Some(held_by("other")), true, 0.0, wait(15.0))]
#[case::right_up_to_its_end(Some(held_by("other")), true, 14.9, wait(15.0))]
#[case::an_expired_lease_is_read_again_first(Some(held_by("other")), false, 15.0, ElectionStep::Request(Request::Read))]
#[case::an_expired_lease_is_taken(Some(held_by("other")), true, 15.0, ElectionStep::Request(Request::Acquire))]
#[case::the_holder_sets_the_span(
    Some(LeaseRecord { duration: Some(Duration::from_mins(1)), ..held_by("other") }), true, 15.0, wait(60.0)
)]
#[case::without_a_span_ours_counts(Some(LeaseRecord { duration: None, ..held_by("other") }), true, 1.0, wait(15.0))]
#[case::our_own_former_life_is_waited_for_like_any_other(Some(held_by(ME)), true, 1.0, wait(15.0))]
fn a_candidate(
    #[case] record: Option<LeaseRecord>,
    #[case] live: bool,
    #[case] at: f64,
    #[case] expected: ElectionStep,
) {
    assert_eq!(candidate(record, live, at), expected);
}

#[rstest]
#[case::rests_between_renewals(Some(held_by(ME)), true, 0.0, wait(5.0))]
#[case::renews_at_a_third(Some(held_by(ME)), true, 5.0, ElectionStep::Request(Request::Renew))]
#[case::renews_again_while_there_is_time(Some(held_by(ME)), true, 9.9, ElectionStep::Request(Request::Renew))]
#[case::is_lost_at_two_thirds(Some(held_by(ME)), true, 10.0, ElectionStep::Lost(Loss::NotRenewed))]
#[case::is_lost_after_a_long_pause(Some(held_by(ME)), true, 3600.0, ElectionStep::Lost(Loss::NotRenewed))]
#[case::reads_the_lease_when_in_doubt(Some(held_by(ME)), false, 1.0, ElectionStep::Request(Request::Read))]
#[case::ignores_a_cached_record_of_another_holder(
    Some(held_by("other")),
    false,
    1.0,
    ElectionStep::Request(Request::Read)
)]
#[case::is_lost_to_another_holder(
    Some(held_by("other")), true, 1.0, ElectionStep::Lost(Loss::Taken { by: Some("other".into()) })
)]
#[case::is_lost_when_the_holder_was_cleared(Some(released()), true, 1.0, ElectionStep::Lost(Loss::Taken { by: None }))]
#[case::is_lost_to_a_twin_of_the_same_name(
    Some(LeaseRecord { transitions: 4, ..held_by(ME) }), true, 1.0, ElectionStep::Lost(Loss::Taken { by: Some(ME.into()) })
)]
#[case::recreates_a_lease_that_was_deleted(None, true, 1.0, ElectionStep::Request(Request::Create))]
#[case::but_not_on_a_mere_hint(None, false, 1.0, ElectionStep::Request(Request::Read))]
#[case::nor_when_its_time_is_over(None, true, 10.0, ElectionStep::Lost(Loss::NotRenewed))]
fn a_leader(#[case] record: Option<LeaseRecord>, #[case] live: bool, #[case] at: f64, #[case] expected: ElectionStep) {
    assert_eq!(leader(record, live, at), expected);
}

#[test]
fn an_attempt_whose_answer_was_lost_is_completed_at_once() {
    let now = Instant::now();
    let seen = ObservedLease {
        record: Some(held_by(ME)),
        changed: now,
        promised_until: None,
        live: true,
    };
    let standing = Standing::Candidate { sent: Some(claim()) };
    assert_eq!(
        decide(Some(&seen), &standing, TIMING, None, now),
        ElectionStep::Request(Request::Acquire)
    );
}

#[test]
fn failures_delay_the_next_request_but_never_the_end_of_leadership() {
    let start = Instant::now();
    let at = |second| start + seconds(second);
    let seen = ObservedLease {
        record: Some(held_by(ME)),
        changed: start,
        promised_until: None,
        live: false,
    };
    let leading = Standing::Leading {
        claim: claim(),
        renewed: start,
    };
    let decide_at = |second, retry| decide(Some(&seen), &leading, TIMING, Some(at(retry)), at(second));
    assert_eq!(decide_at(6.0, 7.0), ElectionStep::Wait(at(7.0)));
    assert_eq!(
        decide_at(9.5, 11.0),
        ElectionStep::Wait(at(10.0)),
        "not beyond the expiry of the lease"
    );
    assert_eq!(decide_at(10.0, 11.0), ElectionStep::Lost(Loss::NotRenewed));
    let candidate = Standing::Candidate { sent: None };
    assert_eq!(
        decide(None, &candidate, TIMING, Some(at(1.0)), at(0.5)),
        ElectionStep::Wait(at(1.0))
    );
    assert_eq!(
        decide(None, &candidate, TIMING, Some(at(1.0)), at(1.0)),
        ElectionStep::Request(Request::Read)
    );
}

/// Otherwise, the loser of the race for a new Lease would rely on what the watch shows, and never be ready.
#[test]
fn a_candidate_whose_request_failed_reads_the_lease_again_although_it_knows_the_leader() {
    let start = Instant::now();
    let seen = ObservedLease {
        record: Some(held_by("other")),
        changed: start,
        promised_until: None,
        live: false,
    };
    let standing = Standing::Candidate { sent: Some(claim()) };
    let retry_at = Some(start + seconds(1.0));
    let step = |at| {
        relative(
            decide(Some(&seen), &standing, TIMING, retry_at, start + seconds(at)),
            start,
        )
    };
    assert_eq!(step(0.5), wait(1.0));
    assert_eq!(step(1.0), ElectionStep::Request(Request::Read));
}

#[test]
fn only_a_change_of_the_record_restarts_the_wait() {
    let start = Instant::now();
    let later = start + seconds(10.0);
    let first = ObservedLease::update(None, Some(held_by("other")), true, TIMING, start);
    let again = ObservedLease::update(Some(first), Some(held_by("other")), false, TIMING, later);
    assert_eq!((again.changed, again.live), (start, false));
    let renewed = ObservedLease::update(Some(again), Some(renewed(held_by("other"))), false, TIMING, later);
    assert_eq!(renewed.changed, later);
}

#[test]
fn a_lease_that_vanished_is_not_created_while_its_holder_may_still_act() {
    let start = Instant::now();
    let at = |second| start + seconds(second);
    let candidate = Standing::Candidate { sent: None };
    let held = ObservedLease::update(None, Some(held_by("other")), true, TIMING, start);
    let gone = ObservedLease::update(Some(held), None, true, TIMING, at(1.0));
    assert_eq!(
        decide(Some(&gone), &candidate, TIMING, None, at(2.0)),
        ElectionStep::Wait(at(15.0))
    );
    assert_eq!(
        decide(Some(&gone), &candidate, TIMING, None, at(15.0)),
        ElectionStep::Request(Request::Create)
    );
    let back = ObservedLease::update(Some(gone), Some(released()), true, TIMING, at(3.0));
    assert_eq!(
        decide(Some(&back), &candidate, TIMING, None, at(3.0)),
        ElectionStep::Request(Request::Acquire),
        "a release ends the promise"
    );
}

/// The promise behind all of this, over every moment at a coarse grain: a leader that renews at second 0 has stopped
/// before any candidate that saw the renewal, however early, may take the lease.
#[rstest]
#[case(2)]
#[case(3)]
#[case(15)]
#[case(60)]
fn a_leader_has_stopped_before_a_candidate_may_start(#[case] duration: u64) {
    let timing = Timing {
        duration: Duration::from_secs(duration),
    };
    assert_eq!(first_overlap(timing, timing.duration), None);
    assert!(
        first_overlap(timing, timing.duration / 2).is_some(),
        "a candidate in a hurry must be caught"
    );
}

/// When both would act, for a candidate that waits for `patience`.
fn first_overlap(timing: Timing, patience: Duration) -> Option<Duration> {
    let start = Instant::now();
    let record = LeaseRecord {
        duration: Some(patience),
        ..held_by(ME)
    };
    let leading = Standing::Leading {
        claim: claim(),
        renewed: start,
    };
    let seen = ObservedLease {
        record: Some(record),
        changed: start,
        promised_until: None,
        live: true,
    };
    let both_act = |&after: &Duration| {
        let now = start + after;
        let goes_on = !matches!(decide(Some(&seen), &leading, timing, None, now), ElectionStep::Lost(_));
        let candidate = decide(Some(&seen), &Standing::Candidate { sent: None }, timing, None, now);
        goes_on && candidate == ElectionStep::Request(Request::Acquire)
    };
    (0..timing.duration.as_secs() * 20)
        .map(|tenths| Duration::from_millis(tenths * 100))
        .find(both_act)
}
