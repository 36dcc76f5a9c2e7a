//! Stable and stopped: no rollout is in progress. The two differ in name only.

use super::drift::{drift, target};
use super::input::Input;
use super::phase::{Transition, repair, route};
use super::progress::{Progress, terminal_phase};
use super::{auto_stop, lost_pod, notice};

pub(super) fn step(input: &Input, before: Progress) -> Transition {
    let routed = route(input, before.current, None);
    let Some(target) = target(input, before) else {
        let set = input.generation(before.current).live_set();
        let phase = set.map_or(before.phase, |set| terminal_phase(set.replicas));
        return Transition {
            requeue_after: notice::remaining(input, before.current),
            auto_stop: auto_stop::decide(input, before),
            ..Transition::stay(before.at(phase), routed.into_iter().collect())
        };
    };
    if let Some(why) = drift(input, &target, before.current).or_else(|| lost_pod::cause(input, before.current)) {
        let next = before.next_generation();
        return Transition::roll_out(next, why);
    }
    let mut writes = repair(input, before.current);
    writes.extend(routed);
    Transition {
        auto_stop: auto_stop::decide(input, before),
        requeue_after: notice::remaining(input, before.current),
        ..Transition::stay(before.at(terminal_phase(input.replicas())), writes)
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Stable, Stopped};

    use crate::plan::engine::fixture::{engine, route_to};
    use crate::plan::engine::{EngineWrite, GateCause};

    #[test]
    fn a_stable_engine_is_not_modified() {
        let plan = engine("a").serving(3).at(Stable).plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.requeue_after, None);
    }

    #[test]
    fn a_new_generation_is_only_announced() {
        let plan = engine("a").serving(3).at(Stable).desired_hash("new").plan();
        assert_eq!(plan.writes, []);
        let status = plan.status.unwrap();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 4));
        assert_eq!(status.active_generation, 3);
        assert_eq!(
            plan.events[0].message,
            "Rolling out generation 4: a setting changed that the pods do not show."
        );
    }

    #[test]
    fn a_missing_or_modified_stateful_set_causes_a_rollout() {
        for (engine, why) in [
            (engine("a").serving(0).lost_set(0), "StatefulSet a-g0 is missing"),
            (
                engine("a").serving(0).set(0, |set| set.tampered = true),
                "StatefulSet a-g0 was modified by another client",
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
    fn pods_without_their_stateful_set_keep_their_queries_until_another_generation_is_ready() {
        let orphaned = engine("a").serving(0).at(Stable).orphaned(0).reported();
        assert_eq!(orphaned.engine.status.as_ref().unwrap().current_generation, 1);
        let writes = orphaned.plan().writes;
        let kept =
            |write: &EngineWrite| !matches!(write, EngineWrite::ApplyRoutingService { .. } | EngineWrite::Delete(_));
        assert!(writes.iter().all(kept), "{writes:?}");
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
            EngineWrite::ApplyConfigMap {
                generation: 2,
                copy_of: None,
            },
            EngineWrite::ApplyHeadlessService { generation: 2 },
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
    fn a_gate_blocks_the_rollout_but_not_the_repair_of_the_route() {
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
    fn a_foreign_or_terminating_routing_service_is_not_modified() {
        let lost = engine("a")
            .serving(2)
            .at(Stable)
            .routing(|routing| routing.target = None);
        let foreign = lost.clone().routing(|routing| routing.meta.owned = false);
        assert_eq!(foreign.plan().writes, []);
        let terminating = lost.clone().routing(|routing| routing.meta.terminating = true);
        assert_eq!(terminating.plan().writes, []);
        assert_eq!(lost.plan().writes, [route_to(2)]);
    }

    #[test]
    fn a_modified_routing_service_is_repaired() {
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
