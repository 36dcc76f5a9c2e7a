//! Creating: the objects of the new generation are created, and its pods become ready.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::drift::{Target, drift, target};
use super::input::Input;
use super::output::EngineWrite;
use super::phase::{Transition, repair, route};
use super::progress::Progress;
use super::{auto_stop, lost_pod, notice};

pub(super) fn step(input: &Input, before: Progress) -> Transition {
    let seen = input.generation(before.current);
    if input.routed_to() == Some(before.current) && seen.any_ready() {
        // The route was lost and restored to this generation because no other one could serve. Queries may be running:
        // it is too late to abandon this generation, whatever has changed since.
        let why = format!("Generation {} is already serving queries.", before.current);
        return Transition::to(before.at(EnginePhase::Switching), why);
    }
    if let Some(route) = before
        .active
        .filter(|&active| !stays_withdrawn(input, active))
        .and_then(|active| route(input, active, Some(before.current)))
    {
        // The route is repaired first, and alone: the generation that it selects is neither abandoned nor swept,
        // because it may become ready and receive queries at any time.
        return Transition {
            requeue_after: Some(Duration::ZERO),
            ..Transition::stay(before, vec![route])
        };
    }
    let Some(target) = target(input, before) else {
        return Transition::stay(before, Vec::new());
    };
    if let Some(why) = cause_to_abandon(input, &target, before) {
        return abandon(input, before, why);
    }
    let writes = if seen.stateful_set.is_some() {
        repair(input, before.current)
    } else {
        creation(input, &target, before.current)
    };
    if let Some(remaining) = notice::remaining(input, before.current) {
        return Transition {
            requeue_after: Some(remaining),
            auto_stop: auto_stop::call_off(input, before),
            ..Transition::stay(before, writes)
        };
    }
    if seen.all_ready() {
        return Transition {
            writes,
            ..Transition::to(before.at(EnginePhase::Switching), takes_over(input, before.current))
        };
    }
    Transition {
        requeue_after: until_deadline(input, before),
        ..Transition::stay(before, writes)
    }
}

/// The objects of a generation, in the order of their dependencies: every pod needs the configuration and the headless Service
/// at its start.
fn creation(input: &Input, target: &Target, generation: i64) -> Vec<EngineWrite> {
    let Target { copy_of, .. } = *target;
    let mut writes = match copy_of {
        None => repair(input, generation),
        // What may be there was rendered for other pods.
        Some(_) => vec![
            EngineWrite::ApplyConfigMap { generation, copy_of },
            EngineWrite::ApplyHeadlessService { generation },
        ],
    };
    writes.push(EngineWrite::CreateStatefulSet { generation, copy_of });
    writes
}

/// A stop was called off while the old generation was draining, and some of its pods are not ready: queries stay held until
/// all of them are, or until the next generation is ready.
fn stays_withdrawn(input: &Input, active: i64) -> bool {
    let routed = input.routed_to().filter(|&routed| routed != active);
    routed.is_some_and(|routed| input.generation(routed).has_no_replicas()) && !input.generation(active).all_ready()
}

fn takes_over(input: &Input, current: i64) -> String {
    let stops = input
        .generation(current)
        .live_set()
        .is_some_and(|set| set.replicas == 0);
    match notice::serving_beside(input, current).filter(|_| stops) {
        Some(serving) => {
            format!(
                "The stop notice of {} s is over; switching queries away from generation {serving}.",
                notice::STOP_NOTICE.as_secs()
            )
        }
        None => format!("Generation {current} is ready; switching queries to it."),
    }
}

fn abandon(input: &Input, before: Progress, cause: String) -> Transition {
    let mut next = before.next_generation();
    if input.routed_to() == Some(before.current) {
        // There was no other generation to route to. It may serve queries before the next one does, so it is drained
        // like any active generation.
        next.active = Some(before.current);
    }
    let started = Transition::roll_out(next, cause);
    Transition {
        why: format!("Abandoning generation {}. {}", before.current, started.why),
        ..started
    }
}

/// A generation that does not match the desired state is not patched: its pods may have read outdated configuration.
fn cause_to_abandon(input: &Input, target: &Target, before: Progress) -> Option<String> {
    let seen = input.generation(before.current);
    // Another StatefulSet of this name would adopt the pods that the last one left behind, whatever they were made from.
    let begun = seen.stateful_set.is_some() || input.name_taken(before.current) || !seen.orphans.is_empty();
    let why = || drift(input, target, before.current).or_else(|| lost_pod::cause(input, before.current));
    begun.then(why).flatten()
}

/// Time until the progress deadline, if it is in the future.
fn until_deadline(input: &Input, before: Progress) -> Option<Duration> {
    let created = input.generation(before.current).live_set()?.created;
    let waited = input.now.duration_since(created);
    let left = jiff::SignedDuration::try_from(input.progress_deadline).ok()? - waited;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Switching};

    use super::*;
    use crate::plan::engine::GateCause;
    use crate::plan::engine::fixture::{engine, route_to};

    const ALL: [EngineWrite; 3] = [
        EngineWrite::ApplyConfigMap {
            generation: 0,
            copy_of: None,
        },
        EngineWrite::ApplyHeadlessService { generation: 0 },
        EngineWrite::CreateStatefulSet {
            generation: 0,
            copy_of: None,
        },
    ];

    #[test]
    fn a_generation_whose_stateful_set_was_deleted_without_its_pods_is_abandoned() {
        let case = engine("a").serving(0).complete(1).at(Creating).orphaned(1);
        assert_eq!(case.plan().writes, []);
        let status = case.status();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 2));
        assert_eq!(status.rollout_cause.as_deref(), Some("StatefulSet a-g1 is missing"));
    }

    #[test]
    fn objects_are_written_in_the_order_of_their_dependencies() {
        let plan = engine("a").counting(Creating, 0, -1, None).plan();
        assert_eq!(plan.writes, ALL);
    }

    #[test]
    fn a_generation_is_awaited_until_its_deadline() {
        let plan = engine("a").generation(0, 1).at(Creating).plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.requeue_after, Some(Duration::from_mins(10)));
        let late = engine("a")
            .generation(0, 1)
            .at(Creating)
            .but(|case| case.now += Duration::from_mins(10));
        assert_eq!(late.plan().requeue_after, None);
    }

    #[test]
    fn the_switch_begins_when_all_pods_are_ready() {
        assert_eq!(engine("a").complete(0).at(Creating).status().phase, Some(Switching));
        assert_eq!(
            engine("a").replicas(0).complete(0).at(Creating).status().phase,
            Some(Switching)
        );
        let gone = engine("a").complete(0).at(Creating);
        let one_too_many = gone.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.total = 3);
        assert_eq!(one_too_many.status().phase, Some(Creating));
    }

    #[test]
    fn missing_objects_are_written_even_if_all_pods_are_ready() {
        let case = engine("a").complete(0).at(Creating).lost_config(0);
        assert_eq!(case.plan().writes, ALL[..1]);
        assert_eq!(case.status().phase, Some(Switching));
    }

    #[test]
    fn drift_abandons_the_generation_for_the_next_number() {
        let plan = engine("a")
            .serving(0)
            .generation(1, 1)
            .at(Creating)
            .desired_hash("new")
            .plan();
        assert_eq!(plan.writes, []);
        let status = plan.status.unwrap();
        assert_eq!(
            (status.phase, status.current_generation, status.active_generation),
            (Some(Creating), 2, 0)
        );
    }

    #[test]
    fn a_generation_whose_name_is_taken_is_skipped() {
        let case = engine("a").serving(0).generation(1, 0).at(Creating).lost_set(1);
        let taken = case.config(1, |config| config.meta.owned = false);
        assert_eq!(taken.plan().writes, []);
        assert_eq!(taken.status().current_generation, 2);
    }

    #[test]
    fn a_lost_route_is_restored_to_the_active_generation_before_anything_else() {
        let case = engine("a").serving(0).complete(1).at(Creating).unrouted();
        assert_eq!(case.plan().writes, [route_to(0)]);
        assert_eq!(case.plan().requeue_after, Some(Duration::ZERO));
    }

    #[test]
    fn a_lost_route_is_restored_to_the_new_generation_if_only_that_serves() {
        let case = engine("a").serving(0).complete(1).at(Creating).unrouted().lost_set(0);
        assert_eq!(case.plan().writes, [route_to(1)]);
    }

    #[test]
    fn a_generation_that_already_serves_is_not_abandoned() {
        let case = engine("a")
            .complete(0)
            .serving(1)
            .counting(Creating, 1, 0, None)
            .desired_hash("new");
        assert_eq!(case.status().phase, Some(Switching));
    }

    #[test]
    fn a_routed_generation_is_drained_even_if_it_was_never_ready() {
        let case = engine("a")
            .generation(0, 0)
            .routed(0)
            .counting(Creating, 0, -1, None)
            .desired_hash("new");
        let status = case.status();
        assert_eq!((status.current_generation, status.active_generation), (1, 0));
    }

    #[test]
    fn a_gate_prevents_rendering() {
        let plan = engine("a")
            .counting(Creating, 0, -1, None)
            .gate(GateCause::TemplateRejected)
            .plan();
        assert_eq!(plan.writes, []);
    }
}
