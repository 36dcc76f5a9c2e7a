//! Draining: the old generation finishes its running queries.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::auto_stop;
use super::input::{Drain, DrainSample, Input};
use super::phase::{Transition, repair_serving, undo_switch};
use super::progress::Progress;

pub(super) fn step(input: &Input, before: Progress) -> Transition {
    let Some(old) = before.draining else {
        return Transition::to(
            before.finished(input.replicas()),
            "There is no old generation to drain.",
        );
    };
    if let Some(undone) = undo_switch(input, before, old).or_else(|| resume(input, before, old)) {
        return undone;
    }
    let writes = repair_serving(input, before);
    let auto_stop = auto_stop::call_off(input, before).filter(|_| stops(input, before));
    if input.routed_to() == Some(old) {
        // It still receives new queries: whatever was counted, it is not drained.
        let requeue_after = if writes.is_empty() {
            input.drain.interval
        } else {
            Duration::ZERO
        };
        return Transition {
            requeue_after: Some(requeue_after),
            ..Transition::stay(before, writes)
        };
    }
    if let Some(why) = drained(input, old) {
        return Transition {
            writes,
            ..Transition::to(before.at(EnginePhase::Cleaning), why)
        };
    }
    Transition {
        requeue_after: Some(input.drain.interval),
        auto_stop,
        ..Transition::stay(before, writes)
    }
}

/// The newest generation has no pods: the engine is on its way to be stopped.
fn stops(input: &Input, before: Progress) -> bool {
    input.generation(before.current).has_no_replicas()
}

/// Pods are requested again while the last ones finish their queries: the old generation becomes active again, so that the route
/// goes back to it, and the next generation is started beside it. However long a query runs, it keeps no engine unavailable.
fn resume(input: &Input, before: Progress, old: i64) -> Option<Transition> {
    let requested = stops(input, before) && input.replicas() > 0;
    let resumed = Progress {
        active: Some(old),
        draining: None,
        ..before.next_generation()
    };
    let cause = || format!("`spec.replicas` changed from 0 to {}", input.replicas());
    (requested && input.generation(old).live_set().is_some()).then(|| Transition::roll_out(resumed, cause()))
}

/// Why the old generation can be deleted, if it can.
fn drained(input: &Input, old: i64) -> Option<String> {
    if !input.drain.waits {
        return Some(format!(
            "Deleting generation {old} without waiting for its queries, as configured."
        ));
    }
    let empty = match &input.generation(old).stateful_set {
        None => input.generation(old).orphans.is_empty(),
        Some(set) => set.replicas == 0 && input.generation(old).pods.total == 0,
    };
    let counted = counting_sample(input, old).is_some_and(|sample| match sample.outcome {
        Drain::Drained => true,
        Drain::Busy(_) | Drain::Failed { .. } => false,
    });
    if empty {
        return Some(format!("Generation {old} has no pods."));
    }
    counted.then(|| format!("Generation {old} has finished its queries."))
}

/// The sample, if it was taken after the switch and after all gateways have observed it. One that began earlier may have
/// scraped a pod that received queries afterwards.
pub(super) fn counting_sample<'a>(input: &Input<'a>, old: i64) -> Option<&'a DrainSample> {
    let since = input.observed.unrouted_since?.checked_add(input.switch_notice).ok()?;
    let sample = input.observed.drain.as_ref()?;
    (sample.generation == old && sample.began >= since).then_some(sample)
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining};
    use rstest::rstest;

    use super::*;
    use crate::plan::engine::fixture::{Case, SWITCH_NOTICE, engine, minutes_ago, now, route_to};
    use crate::plan::engine::{EngineWrite, GateCause, Pods};

    fn draining() -> Case {
        engine("a").complete(0).serving(1).at(Draining)
    }

    fn pods(case: &mut Case, total: i32) {
        case.observed.generations.get_mut(&0).unwrap().pods = Pods { total, ready: 0 };
    }

    fn failed() -> Drain {
        Drain::Failed {
            pod: "a-g0-0".to_owned(),
            cause: "connection refused".to_owned(),
        }
    }

    #[rstest]
    #[case::not_counted(draining(), Draining)]
    #[case::busy(draining().counted(0, Drain::Busy(2)), Draining)]
    #[case::failed(draining().counted(0, failed()), Draining)]
    #[case::drained(draining().counted(0, Drain::Drained), Cleaning)]
    #[case::another_generation(draining().counted(7, Drain::Drained), Draining)]
    #[case::check_off(draining().but(|case| case.drain.waits = false), Cleaning)]
    #[case::set_gone(draining().lost_set(0), Cleaning)]
    #[case::set_gone_without_its_pods(draining().orphaned(0), Draining)]
    #[case::orphans_drained(draining().orphaned(0).counted(0, Drain::Drained), Cleaning)]
    #[case::no_replicas(engine("a").replicas(0).complete(0).serving(1).at(Draining), Cleaning)]
    #[case::no_replicas_but_a_pod(engine("a").replicas(0).complete(0).serving(1).at(Draining).but(|case| pods(case, 1)), Draining)]
    #[case::replicas_without_a_pod(draining().but(|case| pods(case, 0)), Draining)]
    #[case::behind_a_gate(draining().counted(0, Drain::Drained).gate(GateCause::ClassUnready), Cleaning)]
    fn the_old_generation_is_deleted_when_its_queries_have_finished(#[case] case: Case, #[case] phase: EnginePhase) {
        assert_eq!(case.status().phase, Some(phase));
        assert_eq!(case.plan().writes, []);
    }

    #[test]
    fn a_count_that_began_before_the_switch_is_ignored() {
        let early = draining().counted(0, Drain::Drained);
        let early = early.but(|case| case.observed.drain.as_mut().unwrap().began = minutes_ago(3));
        assert_eq!(early.status().phase, Some(Draining));
        let unknown = draining()
            .counted(0, Drain::Drained)
            .but(|case| case.observed.unrouted_since = None);
        assert_eq!(unknown.status().phase, Some(Draining));
    }

    /// Gateways may still send queries to the old generation for a while after the switch, and a count must not miss them.
    #[test]
    fn a_count_that_began_before_the_end_of_the_switch_notice_is_ignored() {
        let counted_after = |seconds: i64| {
            let counted = draining().counted(0, Drain::Drained);
            counted.but(|case| {
                let since = case.observed.unrouted_since.unwrap();
                case.observed.drain.as_mut().unwrap().began = since + jiff::SignedDuration::from_secs(seconds);
            })
        };
        let notice = i64::try_from(SWITCH_NOTICE.as_secs()).unwrap();
        assert_eq!(counted_after(notice - 1).status().phase, Some(Draining));
        assert_eq!(counted_after(notice).status().phase, Some(Cleaning));
    }

    /// Generation 0 runs a long query, generation 1 has no pods and is routed.
    fn stopping() -> Case {
        let case = engine("a").complete(0).replicas(0).serving(1).at(Draining);
        case.counted(0, Drain::Busy(1))
    }

    #[test]
    fn pods_that_are_requested_again_during_a_stop_make_the_old_generation_active_and_start_the_next_one() {
        for case in [stopping(), stopping().counted(0, failed())] {
            let requested = case.replicas(3);
            let status = requested.status();
            assert_eq!((status.phase, status.current_generation), (Some(Creating), 2));
            assert_eq!((status.active_generation, status.draining_generation), (0, None));
            assert_eq!(
                status.rollout_cause.as_deref(),
                Some("`spec.replicas` changed from 0 to 3")
            );
            let next = requested.reported();
            assert_eq!(next.plan().writes, [route_to(0)], "the route goes back at once");
        }
    }

    #[test]
    fn a_route_stays_away_from_an_old_generation_of_which_a_pod_is_missing() {
        let partly = stopping().but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 1);
        let next = partly.replicas(2).reported();
        let routes = |case: &Case| {
            case.plan()
                .writes
                .iter()
                .any(|write| matches!(write, EngineWrite::ApplyRoutingService { .. }))
        };
        assert!(!routes(&next), "{:?}", next.plan().writes);
        let whole = next.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 2);
        assert!(routes(&whole));
    }

    #[test]
    fn a_wake_request_during_the_drain_of_a_stop_scales_up() {
        let asleep = stopping().auto_stop(&[]);
        let grows = |case: &Case| {
            case.plan()
                .writes
                .iter()
                .any(|write| matches!(write, EngineWrite::SetReplicas { from: 0, to: 3, .. }))
        };
        assert!(!grows(&asleep));
        assert!(grows(&asleep.woken(&now().to_string())));
        let rolling = draining().auto_stop(&[]).replicas(1).woken(&now().to_string());
        assert!(!grows(&rolling), "only while the engine stops");
    }

    #[test]
    fn without_the_old_generation_a_stop_ends_first() {
        let gone = stopping().lost_set(0).replicas(2);
        assert_eq!(gone.status().phase, Some(Cleaning));
    }

    #[test]
    fn the_next_count_is_due_at_the_drain_interval() {
        let busy = draining().counted(0, Drain::Busy(2)).reported();
        assert_eq!(busy.plan().requeue_after, Some(std::time::Duration::from_secs(5)));
    }

    #[test]
    fn a_route_to_the_old_generation_is_switched_and_nothing_counts_as_drained() {
        let case = draining().routed(0).counted(0, Drain::Drained);
        assert_eq!(case.plan().writes, [route_to(1)]);
        assert_eq!(case.status().phase, Some(Draining));
        assert_eq!(case.reported().plan().requeue_after, Some(std::time::Duration::ZERO));
    }

    #[test]
    fn a_route_that_cannot_be_switched_is_requeued() {
        let held = draining().routed(0).routing(|routing| routing.meta.terminating = true);
        assert_eq!(held.plan().writes, []);
        assert_eq!(held.reported().plan().requeue_after, Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_serving_generation_is_repaired() {
        let case = draining().lost_config(1).unrouted();
        assert_eq!(
            case.plan().writes,
            [
                EngineWrite::ApplyConfigMap {
                    generation: 1,
                    copy_of: None,
                },
                route_to(1)
            ]
        );
        let drained = case.clone().counted(0, Drain::Drained);
        assert_eq!(drained.plan().writes, case.plan().writes);
        assert_eq!(drained.status().phase, Some(Cleaning));
        assert_eq!(case.desired_hash("new").plan().writes, [route_to(1)]);
    }

    #[test]
    fn no_generation_starts_while_one_drains() {
        let status = draining().desired_hash("new").status();
        assert_eq!((status.phase, status.current_generation), (Some(Draining), 1));
    }

    #[test]
    fn the_switch_is_undone_if_the_new_generation_is_lost() {
        let status = draining().lost_set(1).status();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 1));
        assert_eq!((status.active_generation, status.draining_generation), (0, None));
        let terminating = draining().set(1, |set| set.meta.terminating = true);
        assert_eq!(terminating.status().phase, Some(Creating));
        let dead_and_unrouted = engine("a").complete(0).generation(1, 0).at(Draining);
        assert_eq!(dead_and_unrouted.status().phase, Some(Creating));
        let dead_but_routed = engine("a").complete(0).generation(1, 0).routed(1).at(Draining);
        assert_eq!(dead_but_routed.status().phase, Some(Draining));
    }

    #[test]
    fn the_switch_is_undone_if_another_client_scales_the_new_generation_to_zero() {
        let status = draining().emptied(1).status();
        assert_eq!((status.phase, status.active_generation), (Some(Creating), 0));
    }

    #[test]
    fn the_switch_of_an_engine_that_stops_is_not_undone() {
        let case = engine("a").complete(0).replicas(0).complete(1).at(Draining);
        assert_eq!(case.plan().writes, [route_to(1)]);
        assert_eq!(case.status().phase, Some(Draining));
    }
}
