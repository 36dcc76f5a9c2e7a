//! Liveness: if every operation succeeds and the engine starts, every held request is released in time.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_wake_agent::hold::{Answer, Event, PatchOutcome, Refusal, Route, WaiterId};
use testkit::model::{Model, Progress};

use crate::checker::{Checked, Violation, violation};
use crate::engine::NAME;
use crate::world::{HOLD_TIMEOUT, Step, World};

/// The time that this takes: a retried patch, and then a final probe.
const FAIR_TIME: Duration = Duration::from_millis(800);

/// Every history of a world.
pub(crate) struct Histories;

/// Every operation succeeds, and the engine starts.
#[derive(Hash)]
pub(crate) struct FairRun {
    world: World,
    /// The requests that have to be released.
    patient: Vec<WaiterId>,
}

impl Model for Histories {
    type State = World;
    type FairRun = FairRun;
    type Violation = Violation;

    const FAIR_STEPS: usize = 200;

    fn steps(&self, world: &World) -> Vec<Step> {
        world.steps()
    }

    fn fair_run(&self, world: &World) -> FairRun {
        let engine = &world.engine;
        // A stop that is not listed yet is noticed with the next list, which may be too late.
        let noticed = engine.running || engine.wake_requested.is_some() || !world.checker.is_listed_running(NAME);
        let hopeful = engine.exists && engine.auto_stop && noticed;
        let mut patient = world.checker.patient(world.now, FAIR_TIME);
        patient.retain(|_| hopeful);
        let world = world.clone();
        FairRun { world, patient }
    }

    /// Every operation in flight succeeds, and time passes until a timer expires. In the terminal state no request is
    /// held.
    fn advance(&self, run: &mut FairRun) -> Checked<Progress> {
        let FairRun { world, patient } = run;
        let mut answers = BTreeMap::new();
        world.help(&mut answers)?;
        let due = world.checker.state.wake_at().expect("the state machine has started");
        world.pass_until(due);
        answers.extend(world.report(Event::Tick)?);
        for waiter in patient.iter() {
            if let Some(answer) = answers.get(waiter).filter(|answer| at_deadline(answer)) {
                return violation("stranded", format!("{waiter:?} is answered {answer:?}"));
            }
        }
        patient.retain(|waiter| !answers.contains_key(waiter));
        Ok(if world.checker.waiters().next().is_some() {
            Progress::Continues
        } else {
            Progress::Terminal
        })
    }

    fn never_ends(&self, _: &FairRun) -> Violation {
        Violation {
            rule: "stranded",
            what: "a request is held forever".to_owned(),
        }
    }
}

impl World {
    /// Completes every operation in flight, and starts the engine.
    fn help(&mut self, answers: &mut BTreeMap<WaiterId, Answer>) -> Checked<()> {
        while let Some(patch) = self.patches.first().cloned() {
            self.store(&patch);
            answers.extend(self.report(Event::Patched(patch, PatchOutcome::Stored))?);
        }
        if self.engine.wakes() {
            self.engine.running = true;
        }
        let running = self.engine.exists && self.engine.running;
        self.engine.ready = running;
        self.engine.reachable = running;
        while let Some((list, _)) = self.lists.pop_first() {
            answers.extend(self.report(Event::Listed(list, Some(self.engine.listed())))?);
        }
        while let Some((probe, _)) = self.probes.pop_first() {
            answers.extend(self.report(Event::Probed(probe, self.engine.reachable))?);
        }
        Ok(())
    }
}

/// Whether the request was held until its deadline.
fn at_deadline(answer: &Answer) -> bool {
    match answer {
        Answer::Route(Route::Released(stages)) | Answer::Refuse(Refusal::TimedOut(stages)) => {
            stages.released >= HOLD_TIMEOUT
        }
        Answer::Route(_) | Answer::Refuse(_) => false,
    }
}
