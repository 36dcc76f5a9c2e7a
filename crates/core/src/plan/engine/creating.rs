//! Creating: the objects of the new generation are written, and its pods awaited.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::input::{Desired, Input};
use super::output::Write;
use super::phase::{Progress, Step, drift, repair, route};
use super::{auto_stop, notice};

pub(super) fn step(input: &Input, before: Progress) -> Step {
    let seen = input.generation(before.current);
    if input.routed_to() == Some(before.current) && seen.any_ready() {
        // The route was lost and came back here because nothing else served. Queries may be running: too late to give
        // this generation up, whatever has changed since.
        let why = format!("Generation {} serves already.", before.current);
        return Step::go(before.at(EnginePhase::Switching), why);
    }
    if let Some(route) = before
        .active
        .and_then(|active| route(input, active, Some(before.current)))
    {
        // The route goes first, and alone: what it selects is neither given up nor swept, because it may get ready and
        // queries at any moment.
        return Step {
            look_again: Some(Duration::ZERO),
            ..Step::stay(before, vec![route])
        };
    }
    let Ok(desired) = input.desired else {
        return Step::stay(before, Vec::new());
    };
    if let Some(why) = abandoned(input, desired, before) {
        return give_up(input, before, &why);
    }
    let mut writes = repair(input, before.current);
    if seen.stateful_set.is_none() {
        // After its ConfigMap and its headless Service: a pod that starts finds both.
        writes.push(Write::CreateStatefulSet {
            generation: before.current,
        });
    }
    if let Some(rest) = notice::rest(input, before.current) {
        return Step {
            look_again: Some(rest),
            auto_stop: auto_stop::call_off(input, before),
            ..Step::stay(before, writes)
        };
    }
    if seen.all_ready() {
        return Step {
            writes,
            ..Step::go(before.at(EnginePhase::Switching), takes_over(input, before.current))
        };
    }
    Step {
        look_again: until_deadline(input, before),
        ..Step::stay(before, writes)
    }
}

fn takes_over(input: &Input, current: i64) -> String {
    let stops = input
        .generation(current)
        .live_set()
        .is_some_and(|set| set.replicas == 0);
    match notice::serving_beside(input, current).filter(|_| stops) {
        Some(serving) => format!("Every gateway knows of the stop; queries leave generation {serving}."),
        None => format!("Generation {current} is ready; queries move to it."),
    }
}

fn give_up(input: &Input, before: Progress, why: &str) -> Step {
    let mut next = before.next_generation();
    if input.routed_to() == Some(before.current) {
        // There was nowhere else to route to. It may serve before the next one does, so it is drained like one that did.
        next.active = Some(before.current);
    }
    let why = format!(
        "Generation {} is given up for generation {}: {why}.",
        before.current, next.current
    );
    Step::go(next, why)
}

/// A generation that does not match what is desired is not patched: its pods may have read what is now outdated.
fn abandoned(input: &Input, desired: &Desired, before: Progress) -> Option<String> {
    let seen = input.generation(before.current);
    let begun = seen.stateful_set.is_some() || seen.name_taken();
    begun.then(|| drift(input, desired, before.current)).flatten()
}

/// The moment at which the lack of progress has to be reported, if it lies ahead.
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

    const ALL: [Write; 3] = [
        Write::ApplyConfigMap { generation: 0 },
        Write::ApplyHeadlessService { generation: 0 },
        Write::CreateStatefulSet { generation: 0 },
    ];

    #[test]
    fn objects_are_written_in_the_order_in_which_they_need_each_other() {
        let plan = engine("a").counting(Creating, 0, -1, None).plan();
        assert_eq!(plan.writes, ALL);
    }

    #[test]
    fn a_generation_is_awaited_until_its_deadline() {
        let plan = engine("a").generation(0, 1).at(Creating).plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.look_again, Some(Duration::from_mins(10)));
        let late = engine("a")
            .generation(0, 1)
            .at(Creating)
            .but(|case| case.now += Duration::from_mins(10));
        assert_eq!(late.plan().look_again, None);
    }

    #[test]
    fn all_pods_ready_leads_to_the_switch() {
        assert_eq!(engine("a").whole(0).at(Creating).status().phase, Some(Switching));
        assert_eq!(
            engine("a").replicas(0).whole(0).at(Creating).status().phase,
            Some(Switching)
        );
        let gone = engine("a").whole(0).at(Creating);
        let one_too_many = gone.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.total = 3);
        assert_eq!(one_too_many.status().phase, Some(Creating));
    }

    #[test]
    fn what_is_missing_is_written_even_if_all_pods_are_ready() {
        let case = engine("a").whole(0).at(Creating).lost_config(0);
        assert_eq!(case.plan().writes, ALL[..1]);
        assert_eq!(case.status().phase, Some(Switching));
    }

    #[test]
    fn drift_gives_the_generation_up_by_number() {
        let plan = engine("a").serving(0).generation(1, 1).at(Creating).wants("new").plan();
        assert_eq!(plan.writes, []);
        let status = plan.status.unwrap();
        assert_eq!(
            (status.phase, status.current_generation, status.active_generation),
            (Some(Creating), 2, 0)
        );
    }

    #[test]
    fn a_name_that_is_taken_is_passed_over() {
        let case = engine("a").serving(0).generation(1, 0).at(Creating).lost_set(1);
        let taken = case.config(1, |config| config.meta.owned = false);
        assert_eq!(taken.plan().writes, []);
        assert_eq!(taken.status().current_generation, 2);
    }

    #[test]
    fn a_lost_route_comes_back_at_the_active_generation_and_alone() {
        let case = engine("a").serving(0).whole(1).at(Creating).unrouted();
        assert_eq!(case.plan().writes, [route_to(0)]);
        assert_eq!(case.plan().look_again, Some(Duration::ZERO));
    }

    #[test]
    fn a_lost_route_comes_back_at_the_new_generation_if_only_that_serves() {
        let case = engine("a").serving(0).whole(1).at(Creating).unrouted().lost_set(0);
        assert_eq!(case.plan().writes, [route_to(1)]);
    }

    #[test]
    fn a_generation_that_serves_already_is_not_given_up() {
        let case = engine("a")
            .whole(0)
            .serving(1)
            .counting(Creating, 1, 0, None)
            .wants("new");
        assert_eq!(case.status().phase, Some(Switching));
    }

    #[test]
    fn what_is_routed_to_is_drained_even_if_it_never_was_ready() {
        let case = engine("a")
            .generation(0, 0)
            .routed(0)
            .counting(Creating, 0, -1, None)
            .wants("new");
        let status = case.status();
        assert_eq!((status.current_generation, status.active_generation), (1, 0));
    }

    #[test]
    fn a_gate_keeps_objects_from_being_rendered() {
        let plan = engine("a")
            .counting(Creating, 0, -1, None)
            .gate(GateCause::TemplateRejected)
            .plan();
        assert_eq!(plan.writes, []);
    }
}
