//! The API server of the model: carries out one write, and checks what no write may ever do.

use firebolt_api::EnginePhase;
use firebolt_api::name::GENERATION_NAMES;
use firebolt_core::plan::engine::{DeletedObject, EngineObjectKind, EngineWrite};
use testkit::invariant::Invariant;

use crate::check::{Violation, violated};
use crate::world::{Age, Auto, Gen, IDLE_TIMEOUT, Part, Route, Set, Spec, WAKE_TTL, World};

/// The API server refused a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was planned from a cluster that has changed. The reconcile ends here.
    Stale,
    /// A policy rejects the deletion of this headless Service.
    Policy(i8),
}

/// Carries out one write, rendered from `spec`.
pub(crate) fn perform(world: &mut World, write: &EngineWrite, spec: Spec) -> Result<Result<(), Refused>, Violation> {
    match write {
        EngineWrite::AddFinalizer | EngineWrite::RemoveFinalizer => {
            unreachable!("the engine has its finalizer and stays")
        }
        EngineWrite::ApplyConfigMap { generation, copy_of } => {
            let spec = copied(world, *copy_of, spec);
            let number = world.number(*generation);
            let part = part(world.generation(number).config, spec);
            world.generation(number).config = Some(part);
        }
        EngineWrite::ApplyHeadlessService { generation } => {
            let number = world.number(*generation);
            let part = part(world.generation(number).headless, spec);
            world.generation(number).headless = Some(part);
        }
        EngineWrite::CreateStatefulSet { generation, copy_of } => {
            let spec = copied(world, *copy_of, spec);
            let number = world.number(*generation);
            return Ok(create(world, number, spec));
        }
        EngineWrite::ApplyRoutingService { generation } => {
            let number = world.number(*generation);
            route(world, number)?;
        }
        EngineWrite::Delete(object) => return delete(world, object),
        EngineWrite::SetReplicas { from, to, .. } => return scale(world, *from, *to),
    }
    Ok(Ok(()))
}

/// What is rendered: the specification, or what another generation was created from with the replicas of the specification.
fn copied(world: &World, copy_of: Option<i64>, spec: Spec) -> Spec {
    let source = copy_of
        .map(|number| world.number(number))
        .and_then(|number| world.gens.get(&number)?.set);
    source.map_or(spec, |source| Spec {
        print: source.print,
        ..spec
    })
}

fn part(existing: Option<Part>, spec: Spec) -> Part {
    Part {
        print: spec.print,
        tampered: false,
        uid: existing.map_or(0, |part| part.uid),
    }
}

fn create(world: &mut World, number: i8, spec: Spec) -> Result<(), Refused> {
    // An identity that no cache still shows for another object.
    let shown = world
        .lag
        .as_ref()
        .and_then(|lag| lag.gens.get(&number))
        .and_then(|shown| shown.set);
    let generation = world.generation(number);
    if generation.set.is_some() {
        return Err(Refused::Stale);
    }
    generation.set = Some(Set {
        print: spec.print,
        replicas: spec.replicas,
        tampered: false,
        terminating: false,
        owned: true,
        uid: shown.map_or(0, |shown| 1 - shown.uid),
        age: Age::New,
    });
    generation.ready = 0;
    Ok(())
}

fn route(world: &mut World, target: i8) -> Result<(), Violation> {
    let at = |number: i8| world.gens.get(&number).copied().unwrap_or_default();
    let unserved = {
        let generation = at(target);
        generation.ready == 0 && generation.set.is_none_or(|set| set.terminating || set.replicas > 0)
    };
    let better = world
        .named()
        .into_iter()
        .filter(|&other| other != target)
        .find(|&other| whole(at(other)));
    let moves = world.route.is_none_or(|route| route.target != target);
    if let Some(better) = better.filter(|_| unserved && moves) {
        return violated(
            Invariant::RouteHasReadyPods,
            format!("routes to generation {target} without ready pods while {better} is ready"),
        );
    }
    stop_was_visible(world, target)?;
    world.late = world.route.map(|route| route.target).filter(|_| moves).or(world.late);
    world.route = Some(Route { target, intact: true });
    Ok(())
}

/// A route leaves serving pods for nothing only after the stop was visible for the notice: before, a gateway would send
/// queries to nothing.
fn stop_was_visible(world: &World, target: i8) -> Result<(), Violation> {
    let at = |number: i8| world.gens.get(&number).copied().unwrap_or_default();
    let live = |generation: Gen| generation.set.filter(|set| set.owned && !set.terminating);
    let left = world.route.map(|route| route.target).filter(|&left| left != target);
    let serves = left.is_some_and(|left| live(at(left)).is_some() && at(left).ready > 0);
    let unannounced = live(at(target)).is_some_and(|set| set.replicas == 0 && set.age == Age::New);
    if serves && unannounced {
        return violated(
            Invariant::StopIsAnnounced,
            format!("a route leaves serving pods for generation {target}, which has none, before the stop was visible"),
        );
    }
    Ok(())
}

fn whole(generation: Gen) -> bool {
    let live = generation.set.filter(|set| set.owned && !set.terminating);
    live.is_some_and(|set| set.replicas > 0 && generation.ready == set.replicas)
}

fn delete(world: &mut World, object: &DeletedObject) -> Result<Result<(), Refused>, Violation> {
    let number = generation_of(world, &object.name);
    let Some(&found) = world.gens.get(&number) else {
        return Ok(Ok(()));
    };
    let uid = |what: &str, uid: u8| format!("{what}{number}/{uid}");
    match object.kind {
        EngineObjectKind::StatefulSet => {
            let Some(set) = found.set else { return Ok(Ok(())) };
            if uid("s", set.uid) != object.uid {
                return Ok(Err(Refused::Stale));
            }
            deletable(world, number, found, set)?;
            let generation = world.generation(number);
            generation.set = (set.replicas > 0).then_some(Set {
                terminating: true,
                ..set
            });
        }
        EngineObjectKind::Pod => unreachable!("no StatefulSet of the model leaves its pods behind"),
        EngineObjectKind::ConfigMap => {
            not_named(world, number)?;
            world.generation(number).config = None;
        }
        EngineObjectKind::Service if world.policy => return Ok(Err(Refused::Policy(number))),
        EngineObjectKind::Service => {
            not_named(world, number)?;
            world.generation(number).headless = None;
        }
    }
    Ok(Ok(()))
}

fn deletable(world: &World, number: i8, found: Gen, set: Set) -> Result<(), Violation> {
    if !set.owned {
        return violated(
            Invariant::ForeignObjectsUntouched,
            format!("deletes StatefulSet {number} of another owner"),
        );
    }
    not_named(world, number)?;
    if found.busy && !found.excused && world.spec.waits && !set.terminating {
        return violated(
            Invariant::BusyGenerationKept,
            format!("deletes generation {number} with queries in flight"),
        );
    }
    Ok(())
}

fn not_named(world: &World, number: i8) -> Result<(), Violation> {
    let cleaned =
        |status: crate::world::Status| status.phase == EnginePhase::Cleaning && status.draining == Some(number);
    if world.named().contains(&number) && !world.status.is_some_and(cleaned) {
        return violated(
            Invariant::NamedGenerationKept,
            format!("deletes generation {number}, which the status names"),
        );
    }
    if world.route.is_some_and(|route| route.target == number) {
        return violated(
            Invariant::NamedGenerationKept,
            format!("deletes generation {number}, which the routing Service selects"),
        );
    }
    Ok(())
}

fn generation_of(world: &World, name: &str) -> i8 {
    let digits = name
        .trim_start_matches("a-g")
        .trim_end_matches("-config")
        .trim_end_matches("-hl");
    let place: i64 = digits.parse().expect("the name of a generation's object");
    // Names start again, numbers do not.
    world.number(world.first + (place - world.first).rem_euclid(GENERATION_NAMES))
}

fn scale(world: &mut World, from: i32, to: i32) -> Result<Result<(), Refused>, Violation> {
    if i32::from(world.spec.replicas) != from {
        return Ok(Err(Refused::Stale));
    }
    let Some(auto) = world.auto else {
        return violated(
            Invariant::UserFieldsUntouched,
            "changes replicas without an auto-stop policy".to_owned(),
        );
    };
    if to > from && !may_grow(auto) {
        return violated(
            Invariant::ScalesForAReason,
            format!("grows from {from} to {to} without a fresh wake or an open window"),
        );
    }
    if to < from && auto.unused < IDLE_TIMEOUT {
        return violated(
            Invariant::ScalesForAReason,
            format!("shrinks from {from} to {to} after {} quiet steps", auto.unused),
        );
    }
    world.spec.replicas = u8::try_from(to).expect("a small number");
    Ok(Ok(()))
}

fn may_grow(auto: Auto) -> bool {
    auto.window_open || auto.wake.is_some_and(|age| age < WAKE_TTL)
}
