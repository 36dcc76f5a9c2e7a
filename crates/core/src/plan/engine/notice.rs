//! The stop notice: the last pods of an engine keep receiving queries until every gateway has observed that the engine
//! stops.
//!
//! A gateway discovers engines by listing them. If the route left the last pods immediately, a query that arrives
//! before the next list would be sent to no pod, instead of being held and waking the engine. So a stop is visible for
//! a while, as `spec.replicas: 0`, before it takes effect. There is no wait if no pod is ready. How the old generation
//! is drained afterwards makes no difference: the notice is for the queries that arrive, not for those that are
//! running.

use std::time::Duration;

use firebolt_api::EnginePhase;
use jiff::{SignedDuration, Timestamp};

use super::input::Input;

/// How long a stop is visible before the route leaves the last pods: the five seconds between two lists of a gateway
/// without traffic, the second for which Envoy caches that an engine was ready, and two for a slow list.
pub const STOP_NOTICE: Duration = Duration::from_secs(8);
/// Creation times are whole seconds, so the object may be younger than it claims by almost one.
const RESOLUTION: Duration = Duration::from_secs(1);

/// The remaining notice before the route may be switched from ready pods to this generation, which has none.
///
/// The StatefulSet of the generation is created after the replicas were set to zero, and its creation time is a time of
/// the API server. A clock of the operator that is behind does not prolong the notice, because the status that
/// announced the stop has a time of the same clock; a clock that is ahead shortens it.
pub(super) fn remaining(input: &Input, number: i64) -> Option<Duration> {
    let set = input.generation(number).live_set().filter(|set| set.replicas == 0)?;
    serving_beside(input, number)?;
    let notice = SignedDuration::try_from(STOP_NOTICE + RESOLUTION).ok()?;
    let since = announced(input).map_or(set.created, |announced| announced.min(set.created));
    let left = notice - input.now.duration_since(since);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// When the status that names the new generation was written, by the clock of the operator, until the switch is
/// complete.
fn announced(input: &Input) -> Option<Timestamp> {
    let status = input.engine.status.as_ref()?;
    let underway = matches!(status.phase, Some(EnginePhase::Creating | EnginePhase::Switching));
    let written = status.last_reconciled.as_ref().filter(|_| underway)?;
    Some(written.0)
}

/// Another generation whose ready pods receive the queries: the one that the routing Service selects or, without a
/// Service, the one that it is going to select.
pub(super) fn serving_beside(input: &Input, number: i64) -> Option<i64> {
    let active = input.engine.status.as_ref().map(|status| status.active_generation);
    let serving = input.routed_to().or(active)?;
    (serving != number && input.generation(serving).any_ready()).then_some(serving)
}

#[cfg(test)]
mod tests {
    use firebolt_api::AutoStopReason;
    use firebolt_api::EnginePhase::{Creating, Draining, Stopped, Switching};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::plan::engine::EngineWrite;
    use crate::plan::engine::fixture::{Case, engine, now, route_to};

    /// Generation 0 serves with two pods, and generation 1, which has none, was created this number of seconds ago.
    fn stopping(seconds: i64) -> Case {
        let case = engine("a").serving(0).replicas(0).complete(1).at(Creating);
        case.set(1, |set| set.created = now() - SignedDuration::from_secs(seconds))
    }

    fn grown(case: &Case) -> bool {
        let grows = |write: &EngineWrite| matches!(write, EngineWrite::SetReplicas { from: 0, to: 3, .. });
        case.plan().writes.iter().any(grows)
    }

    #[test]
    fn the_last_pods_receive_queries_until_the_stop_notice_is_over() {
        assert_eq!(stopping(0).status().phase, Some(Creating));
        assert_eq!(stopping(8).status().phase, Some(Creating));
        assert_eq!(stopping(9).status().phase, Some(Switching));
    }

    #[test]
    fn the_requeue_is_exactly_at_the_end_of_the_notice() {
        let requeue = |seconds| stopping(seconds).reported().plan().requeue_after;
        assert_eq!(requeue(0), Some(Duration::from_secs(9)));
        assert_eq!(requeue(7), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_clock_that_is_behind_does_not_prolong_the_notice() {
        let behind = |seconds: i64| {
            let announced = now() - SignedDuration::from_secs(seconds);
            // By the clock of the API server, the generation is created in the future.
            let case = stopping(-600);
            case.but(|case| case.engine.status.as_mut().unwrap().last_reconciled = Some(Time(announced)))
        };
        assert_eq!(behind(8).status().phase, Some(Creating));
        assert_eq!(behind(9).status().phase, Some(Switching));
    }

    #[test]
    fn a_stop_is_announced_in_one_message_and_ends_in_one_event() {
        let case = stopping(3);
        let ready = case.ready();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Rolling"));
        assert_eq!(
            ready.message,
            "The engine is stopping. Generation 0 continues to serve queries for 8 s, until all gateways have observed \
             the stop. Then it finishes its running queries and is deleted."
        );
        assert_eq!(case.plan().events, []);
        let later = case.reported().but(|case| case.now += Duration::from_secs(4));
        assert_eq!(later.plan().status, None);
        let over = later.but(|case| case.now += Duration::from_secs(4));
        let events = over.plan().events;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(
            events[0].message,
            "The stop notice of 8 s is over; switching queries away from generation 0."
        );
    }

    #[test]
    fn the_message_is_the_same_before_the_new_generation_is_there() {
        let announced = stopping(3).lost_set(1);
        assert_eq!(announced.ready().message, stopping(3).ready().message);
    }

    #[test]
    fn there_is_no_notice_if_no_pod_is_ready() {
        let first = engine("a").replicas(0).complete(0).at(Creating);
        let first = first.set(0, |set| set.created = now());
        assert_eq!(first.status().phase, Some(Switching));
        let broken = stopping(0).but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 0);
        assert_eq!(broken.status().phase, Some(Switching));
        let was_stopped = engine("a").replicas(0).serving(0).complete(1).at(Creating);
        let was_stopped = was_stopped.set(1, |set| set.created = now());
        assert_eq!(was_stopped.status().phase, Some(Switching));
    }

    #[test]
    fn one_ready_pod_is_enough_to_wait_for() {
        let partly = stopping(0).but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 1);
        assert_eq!(partly.status().phase, Some(Creating));
    }

    #[test]
    fn the_notice_applies_even_if_running_queries_are_not_awaited() {
        let recreated = stopping(0).but(|case| case.drain.waits = false);
        assert_eq!(recreated.status().phase, Some(Creating));
    }

    #[test]
    fn a_switch_that_comes_too_early_waits_for_the_end_of_the_notice() {
        let early = stopping(0).counting(Switching, 1, 0, None).reported();
        assert_eq!(early.plan().writes, []);
        assert_eq!(early.plan().status, None, "the phase stays");
        assert_eq!(early.plan().requeue_after, Some(Duration::from_secs(9)));
        let in_time = early.but(|case| case.now += Duration::from_secs(9));
        assert_eq!(in_time.plan().writes, [route_to(1)]);
    }

    /// The pods were not ready when the switch was decided, so there was no notice yet.
    #[test]
    fn pods_that_become_ready_before_the_switch_get_a_notice_that_can_be_cancelled() {
        let late = |case: Case| case.counting(Switching, 1, 0, None);
        let waiting = late(stopping(3)).auto_stop(&[]);
        assert!(waiting.ready().message.starts_with("The engine is stopping."));
        let woken = waiting.woken(&now().to_string());
        assert!(grown(&woken), "{:?}", woken.plan());
        let back = late(stopping(3)).replicas(2).desired_hash("two again").reported();
        assert_eq!(back.plan().writes, []);
        let status = back.status();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 2));
    }

    #[test]
    fn a_foreign_service_is_awaited_during_the_notice() {
        let foreign = stopping(0).counting(Switching, 1, 0, None);
        let foreign = foreign.routing(|routing| routing.meta.owned = false).reported();
        assert_eq!(foreign.plan().writes, []);
        assert_eq!(foreign.plan().status, None, "the phase stays");
    }

    #[test]
    fn a_route_that_is_lost_during_the_notice_is_restored_to_the_ready_pods() {
        let lost = stopping(0).counting(Switching, 1, 0, None).unrouted();
        assert_eq!(lost.plan().writes, []);
        assert_eq!(lost.status().phase, Some(Creating));
    }

    /// The times of the status and of the StatefulSet come from different clocks, and both are whole seconds. If the clock
    /// of the operator is behind by more than the notice, the notice is counted twice, but not again and again.
    #[test]
    fn a_notice_that_was_over_when_the_switch_began_ends_under_any_clock() {
        for ahead in [-1, 0, 1, 600] {
            let mut case = stopping(-ahead);
            let (mut phases, mut seconds) = (Vec::new(), 0);
            while case.plan().writes != [route_to(1)] {
                if let Some(status) = case.plan().status {
                    phases.extend(status.phase);
                    case.engine.status = Some(status);
                }
                case.now += Duration::from_secs(1);
                seconds += 1;
                assert!(seconds <= 20, "the route has not moved: {phases:?}");
            }
            phases.dedup();
            assert_eq!(phases, [Creating, Switching], "{ahead} s ahead");
        }
    }

    #[test]
    fn a_route_that_another_client_moved_to_ready_pods_stays_there_for_the_notice() {
        let moved = stopping(5).counting(Draining, 1, 1, Some(0)).reported();
        assert_eq!(moved.plan().writes, []);
        let late = moved.but(|case| case.now += Duration::from_secs(4));
        assert_eq!(late.plan().writes, [route_to(1)]);
        let at_rest = stopping(5).counting(Stopped, 1, 1, None).reported();
        assert_eq!(at_rest.plan().writes, []);
        assert_eq!(at_rest.plan().requeue_after, Some(Duration::from_secs(4)));
        let late = at_rest.but(|case| case.now += Duration::from_secs(4));
        assert_eq!(late.plan().writes, [route_to(1)]);
    }

    #[test]
    fn replicas_that_come_back_during_the_notice_start_the_next_generation() {
        let back = stopping(3).replicas(2).desired_hash("two again").status();
        assert_eq!(
            (back.phase, back.current_generation, back.active_generation),
            (Some(Creating), 2, 0)
        );
    }

    #[test]
    fn a_wake_request_during_the_notice_cancels_the_stop() {
        let asleep = stopping(3).auto_stop(&[]);
        assert!(!grown(&asleep));
        assert_eq!(asleep.status().auto_stop_reason, None);
        let woken = asleep.clone().woken(&now().to_string());
        assert!(grown(&woken));
        assert_eq!(woken.status().auto_stop_reason, Some(AutoStopReason::WakeRequested));
        let messages: Vec<String> = woken.plan().events.into_iter().map(|event| event.message).collect();
        assert_eq!(messages, ["Scaled from 0 to 3: wake requested by a query."]);
        assert!(!grown(&asleep.woken("2026-11-16T11:00:00Z")), "an old wake");
    }

    #[test]
    fn a_window_that_opens_during_the_notice_cancels_the_stop() {
        assert!(grown(&stopping(3).auto_stop(&[("12:00", "13:00")])));
    }

    #[test]
    fn a_wake_request_after_the_notice_waits_until_the_engine_is_stopped() {
        let woken = |case: Case| case.auto_stop(&[]).woken(&now().to_string());
        assert!(!grown(&woken(stopping(9))));
        assert!(!grown(&woken(stopping(9).counting(Draining, 1, 1, Some(0)))));
        assert!(grown(&woken(stopping(9).routed(1).counting(Stopped, 1, 1, None))));
    }
}
