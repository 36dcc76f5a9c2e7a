//! The invariants of what a reconcile does and where it ends.

use std::fmt;

use firebolt_api::EnginePhase;
use testkit::invariant::Invariant;

use crate::world::{BAD, Closed, Gen, Route, Status, World};

/// An invariant was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub invariant: Invariant,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} does not hold: {}", self.invariant, self.what)
    }
}

pub(crate) fn violated<T>(invariant: Invariant, what: String) -> Result<T, Violation> {
    Err(Violation { invariant, what })
}

/// What a write of the status may say, seen against the one before it.
pub(crate) fn status_write(world: &World, before: Option<Status>, after: Status) -> Result<(), Violation> {
    let Status {
        phase,
        current,
        active,
        draining,
    } = after;
    let terminal = matches!(phase, EnginePhase::Stable | EnginePhase::Stopped);
    if terminal && (active != Some(current) || draining.is_some()) {
        return violated(Invariant::TerminalIsConsistent, format!("ends with {after:?}"));
    }
    let retiring = matches!(phase, EnginePhase::Draining | EnginePhase::Cleaning);
    if draining.is_some_and(|draining| !retiring || draining >= current) {
        return violated(Invariant::DrainingIsOlder, format!("drains in {after:?}"));
    }
    let Some(before) = before else {
        return lost_status(world, after);
    };
    if current < before.current {
        return violated(
            Invariant::GenerationsAdvance,
            format!("goes back from generation {} to {current}", before.current),
        );
    }
    if current > before.current {
        started(world, before)?;
    }
    let served = world.route.is_some_and(|route| Some(route.target) == active);
    if active != before.active && draining.is_some() && !served {
        return violated(
            Invariant::NamedGenerationKept,
            format!(
                "calls generation {active:?} active while the route is {:?}",
                world.route
            ),
        );
    }
    Ok(())
}

fn lost_status(world: &World, after: Status) -> Result<(), Violation> {
    let ours = world
        .gens
        .iter()
        .filter(|(_, generation)| generation.set.is_some_and(|set| set.owned));
    match ours.map(|(&number, _)| number).max() {
        Some(newest) if newest > after.current => violated(
            Invariant::GenerationsAdvance,
            format!("forgets generation {newest} in {after:?}"),
        ),
        Some(_) | None => Ok(()),
    }
}

/// A new generation is started only from rest or from creating, and only for a cause.
fn started(world: &World, before: Status) -> Result<(), Violation> {
    let at = |number: i8| world.gens.get(&number).copied().unwrap_or_default();
    // Unless pods are wanted again while the last ones finish their queries.
    let stops = before.phase == EnginePhase::Draining && at(before.current).set.is_some_and(|set| set.replicas == 0);
    if matches!(
        before.phase,
        EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning
    ) && !(stops && world.spec.replicas > 0)
    {
        return violated(
            Invariant::GenerationsAdvance,
            format!("starts a generation in {before:?}"),
        );
    }
    let generation = at(before.current);
    let unchanged = generation.set.is_some_and(|set| {
        let same = set.print == world.spec.print && set.replicas == world.spec.replicas;
        same && set.owned && !set.tampered && !set.terminating
    });
    let newer_exists = world.gens.keys().any(|&number| number > before.current);
    if unchanged && !newer_exists {
        return violated(
            Invariant::NoRolloutWithoutCause,
            format!("starts a generation although {} is as desired", before.current),
        );
    }
    Ok(())
}

/// What holds after a reconcile that ran to its end. A generation that only the routing Service named is kept for one
/// reconcile more, and a reconcile that recovers the status does nothing else.
pub(crate) fn reconcile(before: &World, world: &World) -> Result<(), Violation> {
    let with_pods = |generation: &Gen| {
        generation
            .set
            .is_some_and(|set| set.owned && !set.terminating && set.replicas > 0)
    };
    let named = world.named();
    let kept_by_route = before.route.is_some_and(|route| !named.contains(&route.target));
    let holding = world.gens.values().filter(|generation| with_pods(generation)).count();
    let swept = before.status.is_some();
    if swept && holding > 2 && !kept_by_route {
        return violated(
            Invariant::GenerationsAdvance,
            format!("{holding} generations hold pods"),
        );
    }
    Ok(())
}

/// The state that is reached when the disturbances have ended: one whole generation, and nothing else.
pub(crate) fn rest(world: &World) -> Result<(), Violation> {
    let Some(status) = world.status else {
        return violated(Invariant::ReachesTerminal, "comes to rest without a status".to_owned());
    };
    let expected = if world.spec.replicas == 0 {
        EnginePhase::Stopped
    } else {
        EnginePhase::Stable
    };
    if status.phase != expected || status.active != Some(status.current) || status.draining.is_some() {
        return violated(Invariant::ReachesTerminal, format!("comes to rest in {status:?}"));
    }
    let current = world.gens.get(&status.current).copied().unwrap_or_default();
    // Behind a gate, what ran last is stopped as it was.
    let gated = world.spec.gate.is_some();
    let set_matches = current.set.is_some_and(|set| {
        let rendered = gated || (set.print == world.spec.print && !set.tampered);
        rendered && set.replicas == world.spec.replicas && set.owned
    });
    let part_matches = |part: Option<crate::world::Part>| {
        gated || part.is_some_and(|part| part.print == world.spec.print && !part.tampered)
    };
    if !set_matches || !part_matches(current.config) || !part_matches(current.headless) {
        return violated(
            Invariant::ConvergesToSameObjects,
            format!("comes to rest with {current:?}"),
        );
    }
    let route = Route {
        target: status.current,
        intact: true,
    };
    if world.route != Some(route) {
        return violated(
            Invariant::ConvergesToSameObjects,
            format!("comes to rest with the route {:?}", world.route),
        );
    }
    leftovers(world, status)
}

fn leftovers(world: &World, status: Status) -> Result<(), Violation> {
    let ours = |generation: &Gen| generation.set.is_none_or(|set| set.owned);
    let left = world
        .gens
        .iter()
        .find(|(number, generation)| **number != status.current && ours(generation) && deletable(world, generation));
    match left {
        Some((number, generation)) => violated(
            Invariant::ConvergesToSameObjects,
            format!("leaves generation {number} behind: {generation:?}"),
        ),
        None => Ok(()),
    }
}

/// A policy that rejects the deletion of headless Services leaves them behind, and nothing else.
fn deletable(world: &World, generation: &Gen) -> bool {
    generation.set.is_some() || generation.config.is_some() || (generation.headless.is_some() && !world.policy)
}

/// A good specification is restored, and the disturbances end. A missing class stays missing if the engine is to stop.
pub(crate) fn restore(world: &mut World) {
    let active = world.status.and_then(|status| status.active);
    let ran = active.and_then(|active| world.gens.get(&active)?.set);
    let stops = world.spec.gate == Some(Closed::Class) && world.spec.replicas == 0;
    let stays_closed = stops && ran.is_some_and(|set| set.owned && !set.terminating);
    if !stays_closed {
        world.spec.gate = None;
    }
    if world.spec.print == BAD {
        world.spec.print = crate::world::GOOD;
    }
    world.lag = None;
    world.budget = 0;
}
