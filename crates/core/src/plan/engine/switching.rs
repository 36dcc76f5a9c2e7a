//! Switching: the routing Service is pointed to the new generation, and the change is observed.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::drift::{drift, target};
use super::input::Input;
use super::output::EngineWrite;
use super::phase::Transition;
use super::progress::Progress;
use super::{auto_stop, notice};

pub(super) fn step(input: &Input, before: Progress) -> Transition {
    let new = before.current;
    let seen = input.generation(new);
    let routed = input.routed_to() == Some(new);
    if seen.live_set().is_none() || (!routed && (!seen.all_ready() || seen.emptied())) {
        // Going back is safe: creating points the route to the active generation if it has already been switched.
        let why = format!("Generation {new} is no longer ready; waiting for its pods before switching queries.");
        return Transition::to(before.at(EnginePhase::Creating), why);
    }
    if let Some(remaining) = notice::remaining(input, new).filter(|_| !routed) {
        return wait_for_notice(input, before, remaining);
    }
    if !routed {
        let ours = input
            .observed
            .routing
            .as_ref()
            .is_none_or(|routing| routing.meta.owned && !routing.meta.terminating);
        let flip = ours.then_some(EngineWrite::ApplyRoutingService { generation: new });
        // The switch is observed in the next reconcile: a write whose response was lost looks the same.
        return Transition {
            requeue_after: ours.then_some(Duration::ZERO),
            ..Transition::stay(before, flip.into_iter().collect())
        };
    }
    let switched = Progress {
        active: Some(new),
        ..before
    };
    match before.active {
        Some(old) if old != new => {
            let draining = Progress {
                draining: Some(old),
                ..switched.at(EnginePhase::Draining)
            };
            let why = if seen.has_no_replicas() {
                format!("Switched queries away from generation {old}; draining it.")
            } else {
                format!("Switched queries to generation {new}; draining generation {old}.")
            };
            Transition::to(draining, why)
        }
        Some(_) | None => {
            let why = if seen.has_no_replicas() {
                format!("The engine is stopped; generation {new} has no pods.")
            } else {
                format!("Switched queries to generation {new}.")
            };
            Transition::to(switched.finished(input.replicas()), why)
        }
    }
}

/// The engine stops, and pods of the old generation receive queries although the switch was decided: they were not ready
/// then, or the notice, which is measured in whole seconds of two clocks, seems to have a moment left.
///
/// Going back to creating would restart the notice, so that happens only if the generation is outdated, or queries are
/// routed to no pods.
fn wait_for_notice(input: &Input, before: Progress, remaining: Duration) -> Transition {
    let back = |why: String| Transition::to(before.at(EnginePhase::Creating), why);
    if input.routed_to().is_none() && input.observed.routing.as_ref().is_none_or(|routing| routing.meta.owned) {
        let why = "The routing Service selects no generation; restoring it for the generation with ready pods.";
        return back(why.to_owned());
    }
    if let Some(why) = target(input, before).and_then(|target| drift(input, &target, before.current)) {
        return back(format!(
            "Generation {} became outdated before the switch: {why}.",
            before.current
        ));
    }
    Transition {
        requeue_after: Some(remaining),
        auto_stop: auto_stop::call_off(input, before),
        ..Transition::stay(before, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable, Stopped, Switching};
    use firebolt_api::condition::EngineReason;

    use crate::plan::PlannedEvent;
    use crate::plan::engine::GateCause;
    use crate::plan::engine::fixture::{engine, route_to};

    #[test]
    fn the_route_is_switched_and_the_status_waits_until_that_is_observed() {
        let case = engine("a").serving(0).complete(1).at(Switching);
        assert_eq!(case.plan().writes, [route_to(1)]);
        assert_eq!(case.status().phase, Some(Switching));
        assert_eq!(case.reported().plan().requeue_after, Some(std::time::Duration::ZERO));
    }

    #[test]
    fn a_generation_that_another_client_scaled_to_zero_gets_no_queries() {
        let emptied = engine("a").serving(0).complete(1).at(Switching).emptied(1);
        assert_eq!(emptied.plan().writes, []);
        assert_eq!(emptied.status().phase, Some(Creating));
    }

    #[test]
    fn the_deletion_of_a_terminating_service_is_awaited() {
        let case = engine("a")
            .serving(0)
            .complete(1)
            .at(Switching)
            .routing(|routing| routing.meta.terminating = true);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.reported().plan().requeue_after, None);
    }

    #[test]
    fn a_switched_route_stays_while_pods_are_not_ready() {
        let case = engine("a").complete(0).generation(1, 1).routed(1);
        let status = case.counting(Switching, 1, 0, None).status();
        assert_eq!(status.phase, Some(Draining));
    }

    #[test]
    fn the_route_is_not_switched_to_pods_that_are_not_ready() {
        let case = engine("a").serving(0).generation(1, 1).at(Switching);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.status().phase, Some(Creating));
    }

    #[test]
    fn a_stateful_set_that_is_lost_is_created_again_first() {
        let case = engine("a")
            .complete(0)
            .serving(1)
            .counting(Switching, 1, 0, None)
            .lost_set(1);
        assert_eq!(case.status().phase, Some(Creating));
    }

    #[test]
    fn the_old_generation_is_drained_once_the_switch_is_observed() {
        let status = engine("a")
            .complete(0)
            .serving(1)
            .counting(Switching, 1, 0, None)
            .status();
        assert_eq!((status.phase, status.active_generation), (Some(Draining), 1));
        assert_eq!(status.draining_generation, Some(0));
    }

    #[test]
    fn a_first_deploy_has_nothing_to_drain() {
        assert_eq!(
            engine("a").serving(0).counting(Switching, 0, -1, None).status().phase,
            Some(Stable)
        );
        let stopped = engine("a").replicas(0).serving(0).counting(Switching, 0, -1, None);
        assert_eq!(stopped.status().phase, Some(Stopped));
        let again = engine("a").serving(1).counting(Switching, 1, 1, None).status();
        assert_eq!((again.phase, again.draining_generation), (Some(Stable), None));
    }

    #[test]
    fn a_gate_does_not_block_the_switch() {
        let case = engine("a")
            .serving(0)
            .complete(1)
            .at(Switching)
            .gate(GateCause::InstanceNotReady);
        assert_eq!(case.plan().writes, [route_to(1)]);
    }

    #[test]
    fn a_foreign_service_blocks_the_switch_and_is_reported() {
        let case = engine("a")
            .serving(0)
            .complete(1)
            .at(Switching)
            .routing(|routing| routing.meta.owned = false);
        assert_eq!(case.plan().writes, []);
        let warned = |event: &PlannedEvent| {
            event
                .message
                .contains("Service a-service (uid routing) is not owned by the engine")
        };
        assert!(case.plan().events.iter().any(warned));
        let conditions = case.plan().status.expect("a status").conditions;
        let reason = EngineReason::ForeignObject.to_string();
        assert!(
            conditions.iter().any(|condition| condition.reason == reason),
            "{conditions:?}"
        );
    }
}
