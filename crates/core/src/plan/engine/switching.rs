//! Switching: the routing Service moves to the new generation, and is seen there.

use firebolt_api::EnginePhase;

use super::input::Input;
use super::notice;
use super::output::Write;
use super::phase::{Progress, Step};

pub(super) fn step(input: &Input, before: Progress) -> Step {
    let new = before.current;
    let seen = input.generation(new);
    let routed = input.routed_to() == Some(new);
    if seen.live_set().is_none() || (!routed && (!seen.all_ready() || seen.emptied())) {
        // Nothing is lost by going back: creating sends the route to the active generation if it has moved already.
        let why = format!("Generation {new} is no longer ready; the switch waits for its pods.");
        return Step::go(before.at(EnginePhase::Creating), why);
    }
    if !routed && notice::rest(input, new).is_some() {
        // Pods that were not ready when the switch was decided on are now, and keep their queries for the notice.
        let why = format!("Generation {new} has no pods; queries stay where they are until every gateway knows.");
        return Step::go(before.at(EnginePhase::Creating), why);
    }
    if !routed {
        let ours = input
            .observed
            .routing
            .as_ref()
            .is_none_or(|routing| routing.meta.owned && !routing.meta.terminating);
        let flip = ours.then_some(Write::ApplyRoutingService { generation: new });
        // Seeing the Service at the new generation is the next pass: a write whose answer was lost looks the same.
        return Step {
            look_again: ours.then_some(std::time::Duration::ZERO),
            ..Step::stay(before, flip.into_iter().collect())
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
            Step::go(
                draining,
                format!("Queries go to generation {new}; generation {old} finishes its own."),
            )
        }
        Some(_) | None => Step::go(
            switched.finished(input.replicas()),
            format!("Queries go to generation {new}."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable, Stopped, Switching};
    use firebolt_api::condition::EngineReason;

    use crate::plan::Event;
    use crate::plan::engine::GateCause;
    use crate::plan::engine::fixture::{engine, route_to};

    #[test]
    fn the_route_is_moved_and_the_status_waits_until_it_is_seen() {
        let case = engine("a").serving(0).whole(1).at(Switching);
        assert_eq!(case.plan().writes, [route_to(1)]);
        assert_eq!(case.status().phase, Some(Switching));
        assert_eq!(case.reported().plan().look_again, Some(std::time::Duration::ZERO));
    }

    #[test]
    fn a_generation_that_somebody_scaled_to_nothing_gets_no_queries() {
        let emptied = engine("a").serving(0).whole(1).at(Switching).emptied(1);
        assert_eq!(emptied.plan().writes, []);
        assert_eq!(emptied.status().phase, Some(Creating));
    }

    #[test]
    fn a_service_that_goes_is_awaited() {
        let case = engine("a")
            .serving(0)
            .whole(1)
            .at(Switching)
            .routing(|routing| routing.meta.terminating = true);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.reported().plan().look_again, None);
    }

    #[test]
    fn a_route_that_has_moved_stays_while_pods_are_not_ready() {
        let case = engine("a").whole(0).generation(1, 1).routed(1);
        let status = case.counting(Switching, 1, 0, None).status();
        assert_eq!(status.phase, Some(Draining));
    }

    #[test]
    fn the_route_does_not_move_to_pods_that_are_not_ready() {
        let case = engine("a").serving(0).generation(1, 1).at(Switching);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.status().phase, Some(Creating));
    }

    #[test]
    fn a_stateful_set_that_is_lost_is_created_again_first() {
        let case = engine("a")
            .whole(0)
            .serving(1)
            .counting(Switching, 1, 0, None)
            .lost_set(1);
        assert_eq!(case.status().phase, Some(Creating));
    }

    #[test]
    fn the_old_generation_is_drained_once_the_route_is_seen() {
        let status = engine("a").whole(0).serving(1).counting(Switching, 1, 0, None).status();
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
    fn a_gate_does_not_hold_the_switch_up() {
        let case = engine("a")
            .serving(0)
            .whole(1)
            .at(Switching)
            .gate(GateCause::InstanceNotReady);
        assert_eq!(case.plan().writes, [route_to(1)]);
    }

    #[test]
    fn a_service_of_somebody_else_stops_the_switch_and_is_named() {
        let case = engine("a")
            .serving(0)
            .whole(1)
            .at(Switching)
            .routing(|routing| routing.meta.owned = false);
        assert_eq!(case.plan().writes, []);
        let warned = |event: &Event| {
            event
                .message
                .contains("Service a-service (uid routing) belongs to somebody else")
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
