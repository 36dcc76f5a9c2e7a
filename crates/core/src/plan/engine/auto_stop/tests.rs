use firebolt_api::AutoStopReason::{
    ActivityObserved, Disabled, Idle, Initializing, ScheduleActive, ScrapeFailed, Stopped, WakeRequested,
};
use firebolt_api::EnginePhase;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::plan::engine::GateCause;
use crate::plan::engine::fixture::{Case, engine, minutes_ago, now};

const FRESH: &str = "2026-11-16T11:58:00Z";
const OPEN: &[(&str, &str)] = &[("08:00", "18:00")];

fn running(replicas: i32, schedule: &[(&str, &str)]) -> Case {
    let phase = if replicas == 0 {
        EnginePhase::Stopped
    } else {
        EnginePhase::Stable
    };
    let case = engine("a").replicas(replicas).serving(0).at(phase);
    case.auto_stop(schedule).last_used(minutes_ago(60))
}

fn quiet(minutes: i64) -> Activity {
    Activity::Quiet {
        since: minutes_ago(minutes),
    }
}

fn failed() -> Activity {
    Activity::Failed {
        cause: "connection refused".to_owned(),
    }
}

fn scaled_to(case: &Case) -> Option<i32> {
    case.plan().writes.iter().find_map(|write| match write {
        EngineWrite::SetReplicas {
            to, resource_version, ..
        } => {
            assert_eq!(resource_version, "7");
            Some(*to)
        }
        EngineWrite::AddFinalizer
        | EngineWrite::RemoveFinalizer
        | EngineWrite::ApplyConfigMap { .. }
        | EngineWrite::ApplyHeadlessService { .. }
        | EngineWrite::CreateStatefulSet { .. }
        | EngineWrite::ApplyRoutingService { .. }
        | EngineWrite::Delete(_) => None,
    })
}

#[rstest]
#[case::no_policy(engine("a").serving(0).at(EnginePhase::Stable), Disabled, None)]
#[case::wake_brings_back(running(0, &[]).woken(FRESH), WakeRequested, Some(3))]
#[case::wake_comes_before_stopped_and_schedule(running(0, OPEN).woken(FRESH), WakeRequested, Some(3))]
#[case::wake_lifts_a_parked_engine(running(1, &[]).idle_replicas(1).woken(FRESH), WakeRequested, Some(3))]
#[case::wake_does_not_resize_a_running_engine(running(2, &[]).woken(FRESH), WakeRequested, None)]
#[case::wake_never_shrinks(running(5, &[]).woken(FRESH), WakeRequested, None)]
#[case::wake_of_an_engine_at_its_size(running(3, &[]).idle_replicas(3).woken(FRESH), WakeRequested, None)]
#[case::wake_of_an_engine_at_its_size_in_a_window(running(3, OPEN).woken(FRESH), WakeRequested, None)]
#[case::wake_holds_against_idle(running(3, &[]).woken(FRESH).sampled(quiet(60)), WakeRequested, None)]
#[case::a_window_resizes_what_a_wake_does_not(running(2, OPEN).woken(FRESH), ScheduleActive, Some(3))]
#[case::window_wakes(running(0, OPEN), ScheduleActive, Some(3))]
#[case::window_holds_against_idle(running(3, OPEN).sampled(quiet(60)), ScheduleActive, None)]
#[case::window_never_shrinks(running(5, OPEN), ScheduleActive, None)]
#[case::stopped(running(0, &[]), Stopped, None)]
#[case::stopped_with_an_expired_wake(running(0, &[]).woken("2026-11-16T11:55:00Z"), Stopped, None)]
#[case::failed_counts_as_activity(running(3, &[]).sampled(failed()), ScrapeFailed, None)]
#[case::activity(running(3, &[]).sampled(Activity::Busy(1)), ActivityObserved, None)]
#[case::idle(running(3, &[]).sampled(quiet(30)), Idle, Some(0))]
#[case::idle_at_the_floor(running(1, &[]).idle_replicas(1).sampled(quiet(30)), Idle, None)]
#[case::watched_for_too_short(running(3, &[]).sampled(quiet(29)), ActivityObserved, None)]
#[case::used_too_recently(running(3, &[]).last_used(minutes_ago(29)).sampled(quiet(60)), ActivityObserved, None)]
#[case::woken_too_recently(running(3, &[]).woken("2026-11-16T11:31:00Z").sampled(quiet(60)), ActivityObserved, None)]
#[case::window_closed_too_recently(running(3, &[("08:00", "11:31")]).sampled(quiet(60)), ActivityObserved, None)]
#[case::not_counted(running(3, &[]), Initializing, None)]
fn the_first_rule_that_applies_decides(#[case] case: Case, #[case] reason: AutoStopReason, #[case] scale: Option<i32>) {
    assert_eq!(case.status().auto_stop_reason, Some(reason));
    assert_eq!(scaled_to(&case), scale);
}

#[test]
fn the_first_quiet_sample_starts_the_clock() {
    let case = running(3, &[]).but(|case| case.engine.status.as_mut().unwrap().last_activity_time = None);
    let status = case.sampled(quiet(60)).status();
    assert_eq!(status.auto_stop_reason, Some(Initializing));
    assert_eq!(status.last_activity_time, Some(Time(now())));
}

#[test]
fn a_scale_sets_the_times_and_emits_an_event() {
    let case = running(0, &[]).woken(FRESH);
    let status = case.status();
    assert_eq!(status.last_scaled_at, Some(Time(now())));
    assert_eq!(status.last_activity_time, Some(Time(now())));
    assert_eq!(
        case.plan().events[0].message,
        "Scaled from 0 to 3: wake requested by a query."
    );
}

#[rstest]
#[case::ahead("2026-11-16T12:01:01Z", "in the future")]
#[case::malformed("soon", "is not an RFC 3339 time")]
fn an_invalid_wake_request_is_ignored_and_reported(#[case] requested: &str, #[case] why: &str) {
    let case = running(0, &[]).woken(requested);
    assert_eq!(scaled_to(&case), None);
    let event = &case.plan().events[0];
    assert_eq!(event.reason, "WakeIgnored");
    assert!(event.message.contains(why), "{}", event.message);
}

#[test]
fn a_wake_request_of_a_clock_that_is_minutes_behind_is_ignored_and_reported() {
    let behind = running(0, &[]).woken("2026-11-16T11:50:00Z");
    assert_eq!(scaled_to(&behind), None);
    assert_eq!(behind.status().auto_stop_reason, Some(Stopped));
    let event = &behind.plan().events[0];
    assert_eq!(event.reason, "WakeIgnored");
    assert!(
        event.message.contains("is more than five minutes in the past"),
        "{}",
        event.message
    );
}

#[test]
fn a_wake_request_that_was_followed_is_not_reported_when_it_has_expired() {
    let events = |case: Case| case.woken("2026-11-16T11:50:00Z").plan().events;
    assert_eq!(events(running(0, &[]).last_used(minutes_ago(9))), []);
    assert_eq!(events(running(3, &[])), [], "it runs");
    let scaled = running(0, &[]).but(|case| {
        case.engine.status.as_mut().unwrap().last_scaled_at = Some(Time(minutes_ago(9)));
    });
    assert_eq!(events(scaled), []);
}

#[rstest]
fn a_wake_request_is_followed_in_every_auto_stop_state(
    #[values(
        None,
        Some(Disabled),
        Some(WakeRequested),
        Some(ScheduleActive),
        Some(Stopped),
        Some(Initializing),
        Some(ActivityObserved),
        Some(ScrapeFailed),
        Some(Idle)
    )]
    last_reason: Option<AutoStopReason>,
    #[values(None, Some(Activity::Busy(1)), Some(quiet(60)), Some(failed()))] found: Option<Activity>,
    #[values(&[], OPEN)] schedule: &[(&str, &str)],
    #[values(0, 1)] parked_at: i32,
) {
    let case = running(parked_at, schedule).idle_replicas(parked_at).woken(FRESH);
    let case = case.but(|case| case.engine.status.as_mut().unwrap().auto_stop_reason = last_reason);
    let case = match found {
        Some(found) => case.sampled(found),
        None => case,
    };
    assert_eq!(scaled_to(&case), Some(3));
    assert_eq!(case.status().auto_stop_reason, Some(WakeRequested));
}

#[test]
fn a_clock_may_be_a_minute_ahead() {
    assert_eq!(scaled_to(&running(0, &[]).woken("2026-11-16T12:01:00Z")), Some(3));
}

#[test]
fn the_activity_time_is_updated_once_per_poll() {
    let updated = |last| {
        running(3, &[])
            .last_used(last)
            .sampled(Activity::Busy(1))
            .status()
            .last_activity_time
    };
    assert_eq!(updated(minutes_ago(1)), Some(Time(now())));
    let recent = now() - SignedDuration::from_secs(59);
    assert_eq!(updated(recent), Some(Time(recent)));
}

#[test]
fn a_pod_that_takes_many_polls_to_fail_is_reported() {
    let hanging = running(3, &[]).sampled(failed()).but(|case| {
        case.observed.activity.as_mut().unwrap().taken = now() - SignedDuration::from_mins(10);
    });
    assert_eq!(hanging.status().auto_stop_reason, Some(ScrapeFailed));
}

#[test]
fn a_failed_count_restarts_the_idle_timeout() {
    let status = running(3, &[]).sampled(failed()).status();
    assert_eq!(status.last_activity_time, Some(Time(now())));
}

#[test]
fn a_sample_that_is_old_or_of_another_generation_is_ignored() {
    let aged = |seconds| {
        running(3, &[]).sampled(quiet(60)).but(|case| {
            case.observed.activity.as_mut().unwrap().taken = now() - SignedDuration::from_secs(seconds);
        })
    };
    assert_eq!(scaled_to(&aged(120)), Some(0));
    assert_eq!(scaled_to(&aged(121)), None);
    let other = running(3, &[]).sampled(quiet(60));
    let other = other.but(|case| case.observed.activity.as_mut().unwrap().generation = 7);
    assert_eq!(scaled_to(&other), None);
}

#[test]
fn the_requeue_is_at_the_next_window_change_or_poll() {
    let requeue = |case: Case| case.reported().plan().requeue_after;
    assert_eq!(requeue(running(0, &[("12:00:", "")])), None);
    assert_eq!(
        requeue(running(0, &[("12:30", "13:00")])),
        Some(Duration::from_mins(30))
    );
    assert_eq!(requeue(running(3, &[("12:30", "13:00")])), Some(Duration::from_mins(1)));
    assert_eq!(requeue(running(0, &[])), None);
}

#[test]
fn nothing_is_decided_during_a_rollout() {
    let rolling = running(0, &[]).desired_hash("new").woken(FRESH);
    assert_eq!(scaled_to(&rolling), None);
}

#[test]
fn a_gate_of_class_template_or_bounds_neither_keeps_an_engine_from_stopping_nor_from_waking() {
    for cause in [
        GateCause::ClassUnready,
        GateCause::TemplateRejected,
        GateCause::BoundsExceeded,
    ] {
        let woken = running(0, &[]).woken(FRESH).gate(cause);
        assert_eq!(scaled_to(&woken), Some(3), "{cause:?}");
    }
}

#[test]
fn without_its_instance_an_engine_stops_but_does_not_wake() {
    let woken = running(0, &[]).woken(FRESH).gate(GateCause::InstanceNotReady);
    assert_eq!(scaled_to(&woken), None);
    let idle = running(3, &[]).sampled(quiet(30)).gate(GateCause::InstanceNotReady);
    assert_eq!(scaled_to(&idle), Some(0));
}

#[test]
fn a_disabled_policy_decides_nothing() {
    let case = running(0, OPEN).woken(FRESH).but(|case| {
        case.auto_stop.as_mut().unwrap().enabled = false;
    });
    assert_eq!(scaled_to(&case), None);
    let status = case.status();
    assert_eq!(
        (status.auto_stop_reason, status.last_activity_time),
        (Some(Disabled), None)
    );
}

proptest! {
    #[test]
    fn a_wake_request_is_valid_for_five_minutes_and_up_to_one_ahead(age in -600i64..900) {
        let requested = now() - SignedDuration::from_secs(age);
        let woken = scaled_to(&running(0, &[]).woken(&requested.to_string())).is_some();
        prop_assert_eq!(woken, (-60..300).contains(&age));
    }

    #[test]
    fn no_text_of_a_wake_request_causes_a_panic(text in ".*") {
        let _ = running(0, &[]).woken(&text).plan();
    }
}
