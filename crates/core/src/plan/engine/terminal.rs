//! Stable and stopped: at rest. The two differ in name only.

use super::input::Input;
use super::phase::{Progress, Step, drift, repair, route, terminal_phase};
use super::{auto_stop, notice};

pub(super) fn step(input: &Input, before: Progress) -> Step {
    let routed = route(input, before.current, None);
    let Ok(desired) = input.desired else {
        return Step {
            look_again: notice::rest(input, before.current),
            ..Step::stay(before, routed.into_iter().collect())
        };
    };
    if let Some(why) = drift(input, desired, before.current) {
        let next = before.next_generation();
        return Step::go(next, format!("Generation {} rolls out: {why}.", next.current));
    }
    let mut writes = repair(input, before.current);
    writes.extend(routed);
    Step {
        auto_stop: auto_stop::decide(input, before),
        look_again: notice::rest(input, before.current),
        ..Step::stay(before.at(terminal_phase(input.replicas())), writes)
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Stable, Stopped};

    use crate::plan::engine::fixture::{engine, route_to};
    use crate::plan::engine::{GateCause, Write};

    #[test]
    fn an_engine_at_rest_is_left_alone() {
        let plan = engine("a").serving(3).at(Stable).plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.look_again, None);
    }

    #[test]
    fn a_new_generation_is_only_announced() {
        let plan = engine("a").serving(3).at(Stable).wants("new").plan();
        assert_eq!(plan.writes, []);
        let status = plan.status.unwrap();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 4));
        assert_eq!(status.active_generation, 3);
        assert_eq!(
            plan.events[0].message,
            "Generation 4 rolls out: its specification or class changed."
        );
    }

    #[test]
    fn a_lost_or_tampered_stateful_set_rolls() {
        for (engine, why) in [
            (engine("a").serving(0).lost_set(0), "StatefulSet a-g0 is gone"),
            (
                engine("a").serving(0).set(0, |set| set.tampered = true),
                "StatefulSet a-g0 was changed by somebody else",
            ),
            (
                engine("a").serving(0).set(0, |set| set.meta.terminating = true),
                "StatefulSet a-g0 is being deleted",
            ),
        ] {
            let plan = engine.at(Stable).plan();
            assert_eq!(plan.status.unwrap().current_generation, 1);
            assert!(plan.events[0].message.contains(why), "{:?}", plan.events);
        }
    }

    #[test]
    fn children_are_repaired_in_place() {
        let plan = engine("a")
            .serving(2)
            .at(Stable)
            .lost_config(2)
            .broken_headless(2)
            .unrouted()
            .plan();
        let expected = [
            Write::ApplyConfigMap { generation: 2 },
            Write::ApplyHeadlessService { generation: 2 },
            route_to(2),
        ];
        assert_eq!(plan.writes, expected);
    }

    #[test]
    fn a_child_that_is_being_deleted_is_not_written() {
        let plan = engine("a").serving(2).at(Stable).config(2, |child| {
            child.intact = false;
            child.meta.terminating = true;
        });
        assert_eq!(plan.plan().writes, []);
    }

    #[test]
    fn a_gate_stops_the_roll_but_not_the_repair_of_the_route() {
        let plan = engine("a")
            .serving(2)
            .at(Stable)
            .unrouted()
            .lost_set(2)
            .gate(GateCause::ClassUnready)
            .plan();
        assert_eq!(plan.writes, [route_to(2)]);
        assert_eq!(plan.status.unwrap().current_generation, 2);
    }

    #[test]
    fn the_routing_service_of_somebody_else_or_one_that_goes_is_left_alone() {
        let lost = engine("a")
            .serving(2)
            .at(Stable)
            .routing(|routing| routing.target = None);
        let foreign = lost.clone().routing(|routing| routing.meta.owned = false);
        assert_eq!(foreign.plan().writes, []);
        let going = lost.clone().routing(|routing| routing.meta.terminating = true);
        assert_eq!(going.plan().writes, []);
        assert_eq!(lost.plan().writes, [route_to(2)]);
    }

    #[test]
    fn a_routing_service_that_was_changed_is_repaired() {
        let case = engine("a")
            .serving(2)
            .at(Stable)
            .routing(|routing| routing.intact = false);
        assert_eq!(case.plan().writes, [route_to(2)]);
    }

    #[test]
    fn a_stopped_engine_keeps_its_generation() {
        let plan = engine("a").replicas(0).serving(2).at(Stopped).reported().plan();
        assert_eq!(plan.writes, []);
        assert!(plan.status.is_none(), "{:?}", plan.status);
    }
}
