//! Everything that can happen besides a reconcile: what helps, what disturbs, and time.

use crate::world::{
    Age, Auto, BAD, Began, Closed, Count, DrainCount, GOOD, Gen, Lag, Lagging, OLD, OTHER, Part, Set, World,
};
use firebolt_api::EnginePhase;

/// A change of the world, with its name.
pub(crate) type Event = (String, World);

/// What happens by itself, any number of times.
pub(crate) fn natural(world: &World, events: &mut Vec<Event>) {
    for (&number, &generation) in &world.gens {
        let mut with = |what: &str, change: &dyn Fn(&mut Gen)| {
            let mut next = world.clone();
            change(next.generation(number));
            events.push((format!("{what} g{number}"), next));
        };
        if let Some(set) = generation.set {
            if !set.terminating && set.owned && set.print != BAD && generation.ready < set.replicas {
                with("pod ready in", &|generation| generation.ready += 1);
            }
            if set.terminating {
                with("gone:", &|generation| {
                    generation.set = None;
                    generation.ready = 0;
                    generation.busy = false;
                });
            }
            let routed = world.route.is_some_and(|route| route.target == number);
            if routed && generation.ready > 0 && !generation.busy {
                with("query starts on", &|generation| generation.busy = true);
            }
        }
        if generation.busy {
            with("query ends on", &|generation| generation.busy = false);
        }
    }
    drain_counts(world, events);
    late_queries(world, events);
    let mut noticed = world.clone();
    noticed.notice();
    if noticed != *world {
        events.push(("the notice of the stop passes".to_owned(), noticed));
    }
    if world.lag.is_some() {
        let mut next = world.clone();
        next.lag = None;
        events.push(("caches catch up".to_owned(), next));
    }
}

/// A gateway that has not observed the switch yet sends queries to the old generation.
fn late_queries(world: &World, events: &mut Vec<Event>) {
    let Some(left) = world.late else { return };
    let mut seen = world.clone();
    seen.late = None;
    events.push(("all gateways observe the switch".to_owned(), seen));
    let drains = world.status.is_some_and(|status| status.draining == Some(left));
    let serves = world.gens.get(&left).is_some_and(|generation| generation.ready > 0);
    if drains && serves {
        let mut next = world.clone();
        next.generation(left).busy = true;
        events.push((format!("a late query starts on g{left}"), next));
    }
}

fn drain_counts(world: &World, events: &mut Vec<Event>) {
    let Some(status) = world.status.filter(|status| status.phase == EnginePhase::Draining) else {
        return;
    };
    let Some(old) = status.draining else { return };
    let busy = world.gens.get(&old).is_some_and(|generation| generation.busy);
    let truth = if busy { Count::Busy } else { Count::None };
    let mut count = |what: &str, began: Began, found: Count| {
        let mut next = world.clone();
        next.count = Some(DrainCount {
            generation: old,
            began,
            found,
        });
        events.push((what.to_owned(), next));
    };
    let now = match (world.unrouted, world.late == Some(old)) {
        (false, _) => Began::BeforeTheSwitch,
        (true, true) => Began::DuringTheNotice,
        (true, false) => Began::AfterTheNotice,
    };
    count("queries counted", now, truth);
    count("count fails", now, Count::Failed);
    count(
        "count from before the switch arrives",
        Began::BeforeTheSwitch,
        Count::None,
    );
}

/// What a user or a failure does to the cluster. Each costs one of the budget.
pub(crate) fn disturbances(world: &World, events: &mut Vec<Event>) {
    let Some(budget) = world.budget.checked_sub(1) else {
        return;
    };
    let mut with = |what: String, change: &dyn Fn(&mut World)| {
        let mut next = world.clone();
        change(&mut next);
        if next != *world {
            next.budget = budget;
            events.push((what, next));
        }
    };
    for print in [GOOD, OTHER, BAD] {
        with(format!("spec {print}"), &|world| world.spec.print = print);
    }
    for replicas in [0, 2] {
        with(format!("replicas {replicas}"), &|world| world.spec.replicas = replicas);
    }
    with("drain check toggled".to_owned(), &|world| {
        world.spec.waits = !world.spec.waits;
        // Too late for a generation that was already given up.
        let cleaning = world.status.filter(|status| status.phase == EnginePhase::Cleaning);
        if let Some(old) = cleaning.and_then(|status| status.draining) {
            world.generation(old).excused = true;
        }
    });
    for gate in [Closed::Instance, Closed::Class] {
        with(format!("gate {gate:?} toggled"), &|world| {
            world.spec.gate = if world.spec.gate.is_none() { Some(gate) } else { None };
        });
    }
    with("a policy rejects deletes".to_owned(), &|world| world.policy = true);
    with("status lost".to_owned(), &|world| {
        world.status = None;
        // The routing Service is all that is left to tell who serves; one that is newer is taken for one in the making.
        let routed = world.route.map_or(-1, |route| route.target);
        for (_, newer) in world.gens.range_mut(routed + 1..) {
            newer.excused = true;
        }
    });
    with("route deleted".to_owned(), &|world| {
        excuse(world, false);
        world.route = None;
    });
    with("route broken".to_owned(), &|world| {
        if let Some(route) = &mut world.route {
            route.intact = false;
        }
    });
    for &number in world.gens.keys() {
        with(format!("route moved to g{number}"), &|world| {
            excuse(world, false);
            if let Some(route) = &mut world.route {
                if route.target != number {
                    world.late = Some(route.target);
                }
                route.target = number;
                excuse(world, true);
            }
        });
        on_generation(number, &mut with);
    }
    if let Some(status) = world.status {
        with(format!("a user takes the name of g{}", status.current + 1), &|world| {
            let generation = world.generation(status.current + 1);
            if generation.set.is_none() {
                generation.set = Some(foreign_set());
            }
        });
    }
    if world.lag.is_none() {
        let kinds = [
            Lagging::Sets,
            Lagging::Configs,
            Lagging::Headless,
            Lagging::Pods,
            Lagging::Route,
            Lagging::Engine,
        ];
        for kind in kinds {
            with(format!("{kind:?} cache stands still"), &|world| {
                world.lag = Some(freeze(world, kind));
            });
        }
    }
}

/// A route that was moved to a draining generation is noticed, unless it is moved away again at once.
fn excuse(world: &mut World, moved_here: bool) {
    let draining = world.status.and_then(|status| status.draining).filter(|_| moved_here);
    let known = [world.status.and_then(|status| status.active), draining];
    if let Some(route) = world.route.filter(|route| !known.contains(&Some(route.target))) {
        world.generation(route.target).excused = true;
    }
}

fn foreign_set() -> Set {
    Set {
        print: GOOD,
        replicas: 0,
        tampered: false,
        terminating: false,
        owned: false,
        uid: 0,
        age: Age::New,
    }
}

fn on_generation(number: i8, with: &mut impl FnMut(String, &dyn Fn(&mut World))) {
    let tamper = |part: &mut Option<Part>| {
        if let Some(part) = part {
            part.tampered = true;
        }
    };
    with(format!("config of g{number} deleted"), &|world| {
        world.generation(number).config = None;
    });
    with(format!("config of g{number} edited"), &|world| {
        tamper(&mut world.generation(number).config);
    });
    with(format!("headless of g{number} deleted"), &|world| {
        world.generation(number).headless = None;
    });
    with(format!("headless of g{number} edited"), &|world| {
        tamper(&mut world.generation(number).headless);
    });
    with(format!("set of g{number} deleted"), &|world| {
        let generation = world.generation(number);
        generation.set = None;
        generation.ready = 0;
        generation.busy = false;
    });
    with(format!("set of g{number} edited"), &|world| {
        if let Some(set) = &mut world.generation(number).set {
            set.tampered = set.owned;
        }
    });
    with(format!("a pod of g{number} fails"), &|world| {
        let generation = world.generation(number);
        generation.ready = generation.ready.saturating_sub(1);
        generation.busy &= generation.ready > 0;
    });
    with(format!("all pods of g{number} fail"), &|world| {
        let generation = world.generation(number);
        generation.ready = 0;
        generation.busy = false;
    });
}

/// Only the part that the kind is about is kept, so that equal views are equal states.
fn freeze(world: &World, kind: Lagging) -> Lag {
    let keep = |generation: &Gen| match kind {
        Lagging::Sets => Gen {
            set: generation.set,
            ..Gen::default()
        },
        Lagging::Configs => Gen {
            config: generation.config,
            ..Gen::default()
        },
        Lagging::Headless => Gen {
            headless: generation.headless,
            ..Gen::default()
        },
        Lagging::Pods => Gen {
            ready: generation.ready,
            ..Gen::default()
        },
        Lagging::Route | Lagging::Engine => Gen::default(),
    };
    Lag {
        kind,
        gens: world
            .gens
            .iter()
            .map(|(&number, generation)| (number, keep(generation)))
            .collect(),
        route: world.route.filter(|_| kind == Lagging::Route),
        engine: (kind == Lagging::Engine).then_some((world.spec, world.status)),
    }
}

/// Auto-stop: time, demand, counts.
pub(crate) fn auto_stop(world: &World, events: &mut Vec<Event>) {
    let Some(auto) = world.auto else { return };
    let mut with = |what: &str, change: &dyn Fn(&mut World, &mut Auto)| {
        let mut next = world.clone();
        let mut auto = auto;
        change(&mut next, &mut auto);
        next.auto = Some(auto);
        events.push((what.to_owned(), next));
    };
    with("time passes", &|next, auto| {
        next.notice();
        *auto = tick(*auto);
    });
    let settled = world
        .status
        .filter(|status| matches!(status.phase, EnginePhase::Stable | EnginePhase::Stopped));
    if let Some(active) = settled.and_then(|status| status.active)
        && world.spec.replicas > 0
    {
        let busy = world.gens.get(&active).is_some_and(|generation| generation.busy);
        let truth = if busy { Count::Busy } else { Count::None };
        with("activity counted", &|_, auto| counted(auto, truth));
        with("activity count fails", &|_, auto| counted(auto, Count::Failed));
    }
    let Some(budget) = world.budget.checked_sub(1) else {
        return;
    };
    with("wake", &|next, auto| {
        next.budget = budget;
        auto.wake = Some(0);
        auto.unused = 0;
    });
    with("window opens or closes", &|next, auto| {
        next.budget = budget;
        auto.window_closed = auto.window_open.then_some(0);
        auto.window_open = !auto.window_open;
        auto.unused = 0;
    });
    for replicas in 0..=2 {
        with("a person scales", &|next, _| {
            next.budget = budget;
            next.spec.replicas = replicas;
        });
    }
}

fn older(age: u8) -> u8 {
    (age + 1).min(OLD)
}

fn tick(auto: Auto) -> Auto {
    let sample = auto
        .sample
        .map(|(taken, found)| (older(taken), found))
        .filter(|&(taken, _)| taken < OLD);
    // A poll is due every step: with none in between, the engine was not polled.
    let watched = auto.sample.is_some_and(|(taken, _)| taken == 0);
    Auto {
        window_closed: auto.window_closed.map(older).filter(|&age| age < OLD),
        wake: auto.wake.map(older),
        last_activity: auto.last_activity.map(older),
        sample,
        quiet_since: auto.quiet_since.map(older).filter(|_| watched),
        unused: if watched && !auto.window_open {
            older(auto.unused)
        } else {
            0
        },
        ..auto
    }
}

fn counted(auto: &mut Auto, found: Count) {
    auto.quiet_since = match found {
        Count::None => Some(auto.quiet_since.unwrap_or(0)),
        Count::Busy | Count::Failed => None,
    };
    if found != Count::None {
        auto.unused = 0;
    }
    auto.sample = Some((0, found));
}
