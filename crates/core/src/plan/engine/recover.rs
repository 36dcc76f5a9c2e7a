//! The progress of a rollout when the status is missing or inconsistent: after a restore, or a manual edit.
//!
//! It is derived from the labels of the owned objects and the selector of the routing Service. The serving generation
//! is identified, the one beside it keeps its role, and numbers never decrease.

use std::cmp::Reverse;

use super::input::{Generation, Input};
use super::progress::{Progress, terminal_phase};
use firebolt_api::EnginePhase;

/// No engine counts so far: a rollout each second takes 30 000 years.
const IMPLAUSIBLE: i64 = 1_000_000_000_000;
/// How many numbers may be skipped because their names are taken.
const SKIPPED: i64 = 1_000;

pub(super) enum ProgressSource {
    /// The status is consistent.
    Status(Progress),
    /// There is neither a status nor an object: the engine is new.
    New(Progress),
    /// Derived from the cluster.
    Cluster(Progress),
}

pub(super) fn progress(input: &Input) -> ProgressSource {
    let status = input.engine.status.as_ref();
    let newest = owned(input).map(|(number, _)| number).max();
    if let Some(progress) = status.and_then(Progress::of)
        && is_consistent(progress, newest)
    {
        return ProgressSource::Status(progress);
    }
    let current = status
        .map(|status| status.current_generation)
        .filter(|&number| is_plausible(number, newest))
        .unwrap_or(0)
        .max(newest.unwrap_or(0))
        .max(0);
    let fresh = Progress {
        phase: EnginePhase::Creating,
        current,
        active: None,
        draining: None,
    };
    match (newest, status) {
        (None, None) => ProgressSource::New(fresh),
        (None, Some(_)) => ProgressSource::Cluster(fresh),
        (Some(_), _) => ProgressSource::Cluster(with_roles(input, fresh)),
    }
}

/// Whether the phase machine can have written this status. A generation above the current one is impossible as well:
/// its number is persisted before its first object is created.
fn is_consistent(progress: Progress, newest: Option<i64>) -> bool {
    let Progress {
        phase,
        current,
        active,
        draining,
    } = progress;
    let counted = is_plausible(current, newest) && newest.is_none_or(|newest| newest <= current);
    let placed = match phase {
        EnginePhase::Stable | EnginePhase::Stopped => active == Some(current) && draining.is_none(),
        EnginePhase::Creating | EnginePhase::Switching => {
            active.is_none_or(|active| active <= current) && draining.is_none()
        }
        EnginePhase::Draining | EnginePhase::Cleaning => {
            active == Some(current) && draining.is_some_and(|draining| draining < current)
        }
    };
    counted && placed
}

/// Whether an engine can have counted so far. A number that is far beyond every object was written by hand; to count on from
/// there would end at the highest number that there is.
fn is_plausible(number: i64, newest: Option<i64>) -> bool {
    let highest = newest.unwrap_or(0).max(IMPLAUSIBLE).saturating_add(SKIPPED);
    (0..=highest).contains(&number)
}

fn owned<'a>(input: &Input<'a>) -> impl Iterator<Item = (i64, &'a Generation)> {
    let ours = |generation: &Generation| {
        let set = generation.stateful_set.as_ref().is_some_and(|set| set.meta.owned);
        let children = [&generation.config_map, &generation.headless_service];
        set || children.into_iter().flatten().any(|child| child.meta.owned)
    };
    let generations = input.observed.generations.iter();
    generations
        .filter(move |(_, generation)| ours(generation))
        .map(|(&number, generation)| (number, generation))
}

/// Assigns roles to the generations that exist.
fn with_roles(input: &Input, fresh: Progress) -> Progress {
    let live: Vec<(i64, &Generation)> = owned(input).filter(|(_, seen)| seen.live_set().is_some()).collect();
    let routed = live.iter().find(|(number, _)| Some(*number) == input.routed_to());
    let serving = routed.filter(|(_, seen)| serving_rank(seen).is_some());
    let ranked = live
        .iter()
        .filter_map(|(number, seen)| Some((serving_rank(seen)?, Reverse(*number))));
    let likeliest = ranked.min().map(|(_, Reverse(number))| number);
    let number = |found: Option<&(i64, &Generation)>| found.map(|(number, _)| *number);
    let Some(active) = number(serving).or(likeliest).or(number(routed)) else {
        return fresh;
    };
    let placed = Progress {
        active: Some(active),
        ..fresh
    };
    if active < fresh.current {
        return placed;
    }
    // A generation beside the newest one may have running queries, so it is drained and not swept.
    match live
        .iter()
        .map(|(number, _)| *number)
        .filter(|&number| number < active)
        .max()
    {
        Some(old) => Progress {
            draining: Some(old),
            ..placed.at(EnginePhase::Draining)
        },
        None => placed.at(terminal_phase(input.replicas())),
    }
}

/// Rank of a generation when the routing Service selects none: the one that most likely serves comes first. A
/// generation without a ready pod does not serve.
fn serving_rank(seen: &Generation) -> Option<u8> {
    match (seen.any_ready(), seen.all_ready()) {
        (true, true) => Some(0),
        (true, false) => Some(1),
        (false, true) => Some(2),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable, Stopped, Switching};
    use rstest::rstest;

    use super::*;
    use crate::plan::engine::fixture::{Case, engine};

    fn stopped_generation_4(case: &mut Case) {
        let stopped = engine("a").replicas(0).complete(4).observed.generations;
        case.observed.generations.extend(stopped);
    }

    #[rstest]
    #[case::at_rest(engine("a").serving(3), Stable, 3, 3, None)]
    #[case::stopped(engine("a").replicas(0).serving(3), Stopped, 3, 3, None)]
    #[case::creating(engine("a").serving(3).generation(4, 1), Creating, 4, 3, None)]
    #[case::draining(engine("a").complete(3).serving(4), Draining, 4, 4, Some(3))]
    #[case::no_route_newest_ready(engine("a").complete(3).complete(4), Draining, 4, 4, Some(3))]
    #[case::no_route_only_old_ready(engine("a").complete(3).generation(4, 1).lost_set(4), Creating, 4, 3, None)]
    #[case::some_ready_beats_stopped(engine("a").generation(3, 1).but(stopped_generation_4), Creating, 4, 3, None)]
    #[case::none_ready(engine("a").generation(3, 0), Creating, 3, -1, None)]
    #[case::route_at_dead_pods(engine("a").complete(3).generation(4, 0).routed(4), Creating, 4, 3, None)]
    #[case::route_at_all_that_is_left(engine("a").generation(4, 0).routed(4), Stable, 4, 4, None)]
    fn roles_are_derived_from_the_cluster(
        #[case] case: Case,
        #[case] phase: EnginePhase,
        #[case] current: i64,
        #[case] active: i64,
        #[case] draining: Option<i64>,
    ) {
        let plan = case.plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.events[0].reason, "StatusRecovered");
        let status = plan.status.unwrap();
        assert_eq!(status.phase, Some(phase));
        let counters = (
            status.current_generation,
            status.active_generation,
            status.draining_generation,
        );
        assert_eq!(counters, (current, active, draining));
    }

    #[rstest]
    #[case::terminal_without_active(engine("a").serving(3).counting(Stable, 3, 2, None))]
    #[case::terminal_with_draining(engine("a").serving(3).counting(Stable, 3, 3, Some(2)))]
    #[case::behind_the_cluster(engine("a").serving(3).counting(Stable, 2, 2, None))]
    #[case::active_ahead(engine("a").serving(3).counting(Creating, 3, 4, None))]
    #[case::switching_with_draining(engine("a").serving(3).counting(Switching, 3, 2, Some(1)))]
    #[case::draining_nothing(engine("a").serving(3).counting(Draining, 3, 3, None))]
    #[case::draining_itself(engine("a").serving(3).counting(Draining, 3, 3, Some(3)))]
    #[case::draining_before_the_switch(engine("a").serving(3).counting(Draining, 3, 2, Some(1)))]
    fn an_inconsistent_status_is_replaced(#[case] case: Case) {
        let plan = case.plan();
        assert_eq!(plan.events[0].reason, "StatusRecovered");
        assert_eq!(plan.status.unwrap().current_generation, 3);
    }

    #[test]
    fn numbers_never_decrease() {
        let case = engine("a").serving(3).counting(Stable, 9, 9, None).but(|case| {
            case.engine.status.as_mut().unwrap().phase = None;
        });
        assert_eq!(case.status().current_generation, 9);
        let empty = engine("a").counting(Stable, 9, 8, None);
        assert_eq!(empty.status().current_generation, 9);
    }

    #[test]
    fn a_number_that_nobody_can_have_counted_to_is_discarded() {
        for absurd in [i64::MAX, i64::MAX - 1, 10 * IMPLAUSIBLE] {
            let absurd = engine("a").serving(3).counting(Stable, absurd, absurd, None);
            assert_eq!(absurd.plan().events[0].reason, "StatusRecovered");
            assert_eq!(absurd.status().current_generation, 3);
        }
    }

    /// Whatever number is written into the status: an edit rolls out, and then the engine is at rest.
    #[test]
    fn an_engine_rolls_on_from_any_number() {
        let last_name = firebolt_api::name::GENERATION_NAMES - 1;
        let numbers = [
            last_name - 1,
            last_name,
            last_name + 1,
            IMPLAUSIBLE - 1,
            IMPLAUSIBLE,
            IMPLAUSIBLE + SKIPPED,
        ];
        for number in numbers {
            let at_rest = engine("a").serving(number).at(Stable).reported();
            assert_eq!(at_rest.plan().status, None, "{number}");
            let edited = at_rest.desired_hash("new").reported();
            let status = edited.engine.status.clone().unwrap();
            assert_eq!((status.phase, status.current_generation), (Some(Creating), number + 1));
            let next = edited.plan();
            assert!(
                next.writes
                    .iter()
                    .any(|write| matches!(write, crate::plan::engine::EngineWrite::CreateStatefulSet { .. }))
            );
            let written = engine("a").serving(3).counting(Stable, number, number, None).reported();
            let settled = written.plan().status.or(written.engine.status).unwrap();
            assert!(
                settled.current_generation == number + 1 || settled.current_generation == 3,
                "{number}: {settled:?}"
            );
        }
    }

    #[test]
    fn foreign_objects_are_ignored() {
        let case = engine("a")
            .generation(9, 0)
            .lost_config(9)
            .set(9, |set| set.meta.owned = false);
        let case = case.but(|case| case.observed.generations.get_mut(&9).unwrap().headless_service = None);
        assert_eq!(case.status().current_generation, 0);
    }
}
