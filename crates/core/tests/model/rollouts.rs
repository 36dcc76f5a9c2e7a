//! Rollouts as a model: what the caller of `plan` and everything around it can do, and how it all ends.

use std::hash::{Hash, Hasher};

use firebolt_api::{EnginePhase, FireboltEngineStatus};
use testkit::invariant::Invariant;
use testkit::model::{Model, Progress, Step};

use crate::caller::{Decision, decide, persist};
use crate::check::{self, Violation, violated};
use crate::cluster::{Refused, perform};
use crate::environment::{self, Event};
use crate::known_bad::Bad;
use crate::world::{BAD, Began, Count, DrainCount, Lagging, Spec, Status, WAKE_TTL, World};

/// Which histories are searched.
pub(crate) struct Rollouts {
    /// The mistake that is made.
    pub bad: Option<Bad>,
    /// Users and Kubernetes disturb.
    pub disturb: bool,
}

/// What happens with a good specification and no more disturbance.
pub(crate) struct Undisturbed {
    world: World,
    /// The last status that was written, in full.
    status: Option<FireboltEngineStatus>,
    /// There was a fresh wake request at the beginning.
    woken: bool,
}

impl Hash for Undisturbed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.world.clone().canonical().hash(state);
        self.woken.hash(state);
    }
}

impl Model for Rollouts {
    type State = World;
    type FairRun = Undisturbed;
    type Violation = Violation;

    const FAIR_STEPS: usize = 60;

    fn normalize(&self, world: World) -> World {
        world.canonical()
    }

    fn steps(&self, world: &World) -> Vec<Step<World, Violation>> {
        let mut events = Vec::new();
        environment::natural(world, &mut events);
        environment::auto_stop(world, &mut events);
        if self.disturb {
            environment::disturbances(world, &mut events);
        }
        let violation = self.reconciles(world, &mut events).err();
        let steps = events.into_iter().map(|(event, next)| (event, Ok(next)));
        let violation = violation.map(|violation| ("reconcile".to_owned(), Err(violation)));
        let step = |(event, next)| Step {
            event,
            next,
            labels: Vec::new(),
        };
        steps.chain(violation).map(step).collect()
    }

    fn fair_run(&self, world: &World) -> Undisturbed {
        let mut world = world.clone();
        check::restore(&mut world);
        let woken = world
            .auto
            .is_some_and(|auto| auto.wake.is_some_and(|age| age < WAKE_TTL));
        help(&mut world);
        Undisturbed {
            world,
            status: None,
            woken,
        }
    }

    /// One reconcile, and then whatever helps. The terminal state is one in which nothing is written any more.
    fn advance(&self, run: &mut Undisturbed) -> Result<Progress, Violation> {
        let Undisturbed { world, status, woken } = run;
        let Decision { plan, engine } = decide(world, None, status.as_ref(), self.bad);
        let waits = world.status.is_some_and(|status| status.phase == EnginePhase::Draining);
        if plan.writes.is_empty() && plan.status.is_none() && !waits {
            check::rest(world)?;
            if *woken && world.spec.replicas == 0 {
                return violated(
                    Invariant::ScalesForAReason,
                    "fresh demand does not wake the engine".to_owned(),
                );
            }
            return Ok(Progress::Terminal);
        }
        for write in &plan.writes {
            match perform(world, write, engine.0)? {
                Ok(()) => {}
                Err(Refused::Policy(number)) if self.bad != Some(Bad::StopAtARefusedDelete) => {
                    world.refused.insert(number);
                }
                Err(refused) => {
                    return violated(
                        Invariant::ReachesTerminal,
                        format!("is refused {write:?} ({refused:?}) and goes no further"),
                    );
                }
            }
        }
        if let Some(written) = plan.status {
            let before = world.status;
            persist(world, &written);
            check::status_write(world, before, world.status.expect("just written"))?;
            *status = Some(written);
        }
        help(world);
        Ok(Progress::Continues)
    }

    fn never_ends(&self, run: &Undisturbed) -> Violation {
        Violation {
            invariant: if awaits_pods(&run.world).is_some() {
                Invariant::StopCanBeCancelled
            } else {
                Invariant::WritesEnd
            },
            what: format!("goes on and on in {:?}", run.world.status),
        }
    }
}

impl Rollouts {
    /// A reconcile, and one of a second operator that has slept through what happened to the engine.
    fn reconciles(&self, world: &World, events: &mut Vec<Event>) -> Result<(), Violation> {
        self.reconcile(world, None, events)?;
        let slept = world
            .lag
            .as_ref()
            .filter(|lag| lag.kind == Lagging::Engine)
            .and_then(|lag| lag.engine);
        slept.map_or(Ok(()), |engine| self.reconcile(world, Some(engine), events))
    }

    /// Every way in which a reconcile can go: to its end, or dying after each of its writes.
    fn reconcile(
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
            match perform(&mut decided, write, engine.0)? {
                Ok(()) => {}
                // All deletes are attempted.
                Err(Refused::Policy(number)) => {
                    decided.refused.insert(number);
                }
                Err(Refused::Stale) => {
                    events.push((format!("reconcile refused at {write:?}"), decided));
                    return Ok(());
                }
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
        check::reconcile(world, &decided)?;
        events.push((format!("reconcile {:?} -> {:?}", plan.writes, decided.status), decided));
        Ok(())
    }
}

/// The kubelet, the garbage collector, the clients, the probe pool and time do their part.
fn help(world: &mut World) {
    world.notice();
    world.late = None;
    let long = awaits_pods(world);
    for (number, generation) in &mut world.gens {
        generation.busy &= long == Some(*number);
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
        began: Began::AfterTheNotice,
        found: if long == Some(generation) {
            Count::Busy
        } else {
            Count::None
        },
    });
}

/// The draining generation, if pods are wanted and none receives queries: then its queries may run for ever.
fn awaits_pods(world: &World) -> Option<i8> {
    let status = world.status.filter(|status| status.phase == EnginePhase::Draining)?;
    let at = |number: i8| world.gens.get(&number).copied().unwrap_or_default();
    let live = |number: i8| at(number).set.filter(|set| set.owned && !set.terminating);
    let served = world.route.is_some_and(|route| at(route.target).ready > 0);
    let stops = live(status.current).is_some_and(|set| set.replicas == 0 && !set.tampered);
    let old = status.draining.filter(|old| live(*old).is_some())?;
    (stops && world.spec.replicas > 0 && !served).then_some(old)
}
