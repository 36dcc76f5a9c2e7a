//! Breadth-first search through everything that can happen.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use firebolt_api::{EnginePhase, FireboltEngineStatus};

use crate::caller::{Decision, decide, persist};
use crate::check::{self, Violation, violated};
use crate::cluster::perform;
use crate::environment::{self, Event};
use crate::known_bad::Bad;
use crate::world::{BAD, Count, DrainCount, Lagging, Spec, Status, WAKE_TTL, World};

/// More passes than any rollout takes to come to rest.
const PATIENCE: usize = 60;

pub struct Search {
    pub bad: Option<Bad>,
    pub disturb: bool,
    pub limit: usize,
}

pub struct Report {
    pub states: usize,
    pub transitions: usize,
    pub depth: usize,
    pub exhausted: bool,
    pub took: Duration,
}

/// A violation, and how it comes about.
pub struct Failure {
    pub violation: Violation,
    pub story: String,
}

struct Visited {
    parent: usize,
    depth: usize,
    event: Box<str>,
}

impl Search {
    pub fn run(&self, start: Vec<World>) -> Result<Report, Failure> {
        let began = Instant::now();
        let mut known: HashMap<World, usize> = HashMap::new();
        let mut visited: Vec<Visited> = Vec::new();
        let mut queue: Vec<World> = Vec::new();
        let mut calm = HashSet::new();
        let mut transitions = 0;
        let mut add = |world: World,
                       parent: usize,
                       depth: usize,
                       event: &str,
                       queue: &mut Vec<World>,
                       visited: &mut Vec<Visited>| {
            let world = world.canonical();
            if known.contains_key(&world) {
                return;
            }
            known.insert(world.clone(), visited.len());
            let event = event.into();
            visited.push(Visited { parent, depth, event });
            queue.push(world);
        };
        for world in start {
            add(world, 0, 0, "start", &mut queue, &mut visited);
        }
        let mut at = 0;
        while at < queue.len() && queue.len() < self.limit {
            let world = queue[at].clone();
            let fail = |violation, last: &str| Failure {
                story: story(&visited, &queue, at, last),
                violation,
            };
            self.comes_to_rest(&world, &mut calm)
                .map_err(|violation| fail(violation, "everything calms down"))?;
            let mut events = Vec::new();
            environment::natural(&world, &mut events);
            environment::auto_stop(&world, &mut events);
            if self.disturb {
                environment::disturbances(&world, &mut events);
            }
            self.passes(&world, &mut events)
                .map_err(|violation| fail(violation, "a pass"))?;
            transitions += events.len();
            let depth = visited[at].depth + 1;
            for (event, next) in events {
                add(next, at, depth, &event, &mut queue, &mut visited);
            }
            at += 1;
        }
        Ok(Report {
            states: queue.len(),
            transitions,
            depth: visited.iter().map(|visited| visited.depth).max().unwrap_or(0),
            exhausted: at == queue.len(),
            took: began.elapsed(),
        })
    }

    /// A pass, and one of a second operator that has slept through what happened to the engine.
    fn passes(&self, world: &World, events: &mut Vec<Event>) -> Result<(), Violation> {
        self.pass(world, None, events)?;
        let slept = world
            .lag
            .as_ref()
            .filter(|lag| lag.kind == Lagging::Engine)
            .and_then(|lag| lag.engine);
        slept.map_or(Ok(()), |engine| self.pass(world, Some(engine), events))
    }

    /// Every way in which a pass can go: to its end, or dying after each of its writes.
    fn pass(
        &self,
        world: &World,
        slept: Option<(Spec, Option<Status>)>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let mut decided = world.clone();
        let Decision { plan, engine } = decide(&mut decided, slept, None, self.bad);
        let stale = engine != (world.spec, world.status);
        if stale && !self.bad.is_some_and(|bad| bad.unfenced(&plan)) {
            // The confirming read, or the version on the status, finds out: nothing is written.
            return Ok(());
        }
        let mut crashed = decided.clone();
        crashed.forget();
        events.push(("crash".to_owned(), crashed));
        for (done, write) in plan.writes.iter().enumerate() {
            if perform(&mut decided, write, engine.0)?.is_err() {
                events.push((format!("pass refused at {write:?}"), decided));
                return Ok(());
            }
            let mut crashed = decided.clone();
            crashed.forget();
            events.push((format!("crash after write {} of {:?}", done + 1, plan.writes), crashed));
        }
        let conflict = stale && self.bad != Some(Bad::OverwriteStatus);
        if let Some(status) = plan.status.as_ref().filter(|_| !conflict) {
            let before = decided.status;
            persist(&mut decided, status);
            check::status_write(&decided, before, decided.status.expect("just written"))?;
        }
        check::pass(world, &decided)?;
        events.push((format!("pass {:?} -> {:?}", plan.writes, decided.status), decided));
        Ok(())
    }

    /// From here, with a good specification and no more disturbance, writes cease in a terminal phase.
    fn comes_to_rest(&self, world: &World, calm: &mut HashSet<World>) -> Result<(), Violation> {
        let mut world = world.clone();
        check::restore(&mut world);
        let woken = world
            .auto
            .is_some_and(|auto| auto.wake.is_some_and(|age| age < WAKE_TTL));
        let mut full: Option<FireboltEngineStatus> = None;
        let mut path = Vec::new();
        for _ in 0..PATIENCE {
            help(&mut world);
            let key = world.clone().canonical();
            if calm.contains(&key) {
                calm.extend(path);
                return Ok(());
            }
            path.push(key);
            let Decision { plan, engine } = decide(&mut world, None, full.as_ref(), self.bad);
            let waits = world.status.is_some_and(|status| status.phase == EnginePhase::Draining);
            if plan.writes.is_empty() && plan.status.is_none() && !waits {
                check::rest(&world)?;
                if woken && world.spec.replicas == 0 {
                    return violated(11, "fresh demand does not wake the engine".to_owned());
                }
                calm.extend(path);
                return Ok(());
            }
            for write in &plan.writes {
                if perform(&mut world, write, engine.0)?.is_err() {
                    return violated(10, format!("is refused {write:?} although nothing is stale"));
                }
            }
            if let Some(status) = plan.status {
                let before = world.status;
                persist(&mut world, &status);
                check::status_write(&world, before, world.status.expect("just written"))?;
                full = Some(status);
            }
        }
        violated(8, format!("goes on and on in {:?}", world.status))
    }
}

/// The kubelet, the garbage collector, the clients, the probe pool and time do their part.
fn help(world: &mut World) {
    world.notice();
    for generation in world.gens.values_mut() {
        generation.busy = false;
        if generation.set.is_some_and(|set| set.terminating) {
            generation.set = None;
        }
        generation.ready = generation
            .set
            .filter(|set| set.print != BAD)
            .map_or(0, |set| set.replicas);
    }
    let draining = world.status.filter(|status| status.phase == EnginePhase::Draining);
    let old = draining.and_then(|status| status.draining).filter(|_| world.unrouted);
    world.count = old.map(|generation| DrainCount {
        generation,
        counts: true,
        found: Count::None,
    });
}

fn story(visited: &[Visited], queue: &[World], at: usize, last: &str) -> String {
    let mut steps = Vec::new();
    let mut index = at;
    while visited[index].depth > 0 {
        steps.push(index);
        index = visited[index].parent;
    }
    let mut text = String::new();
    for &step in steps.iter().rev() {
        let _ = writeln!(text, "{}", visited[step].event);
    }
    let _ = writeln!(text, "{last}\nin {:?}", queue[at]);
    text
}
