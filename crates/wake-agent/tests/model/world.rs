//! A world with one engine, and everything that can happen in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use firebolt_wake_agent::hold::{
    Answer, Arrival, Engine, Event, List, Now, OVERHEAD, Patch, PatchOutcome, Probe, Settings, WaiterId,
};

use crate::checker::{Checked, Checker, Requested, Violation};
use crate::engine::{EngineState, NAME};
use crate::known_bad::Bad;

pub(crate) type Step = testkit::model::Step<World, Violation>;

/// Room for one large request, or for four without a body, of which unknown engines may use one.
const MEMORY: u64 = 4 * OVERHEAD;
/// The body of a request that occupies all of it.
const LARGE_BODY: u64 = 3 * OVERHEAD;
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(1);
/// A result never arrives if two newer operations of its kind have started.
const IN_FLIGHT: usize = 2;

/// What bounds a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// The number of requests.
    pub requests: u8,
    /// The number of disturbances.
    pub disturbances: u8,
    /// How often time passes until a timer expires.
    pub ticks: u8,
}

/// When all worlds start. Any moment will do.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub now: Now,
    pub checker: Checker,
    pub engine: EngineState,
    /// Operations in flight, with the state of the engine when they started.
    pub lists: BTreeMap<List, Vec<Engine>>,
    pub probes: BTreeMap<Probe, bool>,
    pub patches: BTreeSet<Patch>,
    budget: Budget,
    /// The size of each request.
    bytes: u64,
}

impl World {
    fn new(budget: Budget, bad: Option<Bad>, memory: u64, bytes: u64, engine: EngineState, listed: &[Engine]) -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory,
            hold_timeout: HOLD_TIMEOUT,
        };
        let now = Now {
            monotonic: *START,
            wall: "2026-06-01T12:00:00Z".parse().expect("a time"),
        };
        let mut world = Self {
            now,
            checker: Checker::new(settings, bad),
            engine,
            lists: BTreeMap::new(),
            probes: BTreeMap::new(),
            patches: BTreeSet::new(),
            budget,
            bytes,
        };
        world.report(Event::Tick).expect("it starts");
        let (list, _) = world.lists.pop_first().expect("it lists at once");
        world
            .report(Event::Listed(list, Some(listed.to_vec())))
            .expect("it accepts a list");
        world
    }

    pub(crate) fn stopped(budget: Budget, bad: Option<Bad>) -> Self {
        let engine = EngineState {
            exists: true,
            running: false,
            ready: false,
            reachable: false,
            auto_stop: true,
            wake_requested: None,
        };
        let listed = engine.listed();
        Self::new(budget, bad, MEMORY, LARGE_BODY, engine, &listed)
    }

    pub(crate) fn starting(budget: Budget, bad: Option<Bad>) -> Self {
        let mut engine = Self::stopped(Budget::default(), None).engine;
        engine.running = true;
        let listed = engine.listed();
        Self::new(budget, bad, MEMORY, LARGE_BODY, engine, &listed)
    }

    /// The memory limit is reached.
    pub(crate) fn full(budget: Budget, bad: Option<Bad>) -> Self {
        let engine = Self::stopped(Budget::default(), None).engine;
        let listed = engine.listed();
        Self::new(budget, bad, 0, 0, engine, &listed)
    }

    /// The engine was created after the list.
    pub(crate) fn unknown(budget: Budget, bad: Option<Bad>) -> Self {
        let engine = Self::stopped(Budget::default(), None).engine;
        Self::new(budget, bad, MEMORY, 0, engine, &[])
    }

    pub(crate) fn report(&mut self, event: Event) -> Checked<Vec<(WaiterId, Answer)>> {
        let requested = self.checker.handle(self.now, event)?;
        Ok(self.take(requested))
    }

    fn take(&mut self, requested: Requested) -> Vec<(WaiterId, Answer)> {
        let listed = self.engine.listed();
        self.lists
            .extend(requested.lists.into_iter().map(|list| (list, listed.clone())));
        let reachable = self.engine.reachable;
        self.probes
            .extend(requested.probes.into_iter().map(|probe| (probe, reachable)));
        self.patches.extend(requested.patches);
        while self.lists.len() > IN_FLIGHT {
            self.lists.pop_first();
        }
        while self.probes.len() > IN_FLIGHT {
            self.probes.pop_first();
        }
        while self.patches.len() > IN_FLIGHT {
            self.patches.pop_first();
        }
        requested.answers
    }

    /// Everything that can happen next.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.requests(&mut steps);
        self.results(&mut steps);
        self.changes(&mut steps);
        if self.budget.disturbances > 0 {
            let mut disturbed = self.clone();
            disturbed.budget.disturbances -= 1;
            disturbed.disturb(&mut steps);
        }
        self.time(&mut steps);
        steps
    }

    fn step(&self, event: &str, what: Event, change: impl FnOnce(&mut Self)) -> Step {
        let mut next = self.clone();
        change(&mut next);
        let answers = next.report(what);
        Step {
            event: event.to_owned(),
            labels: answers.iter().flatten().map(|(_, answer)| answer.name()).collect(),
            next: answers.map(|_| next),
        }
    }

    fn changed(&self, event: &str, change: impl FnOnce(&mut EngineState)) -> Step {
        let mut next = self.clone();
        change(&mut next.engine);
        Step {
            event: event.to_owned(),
            next: Ok(next),
            labels: Vec::new(),
        }
    }

    fn requests(&self, steps: &mut Vec<Step>) {
        if self.budget.requests > 0 {
            let mut next = self.clone();
            next.budget.requests -= 1;
            let arrived = next.checker.arrive(next.now, NAME, next.bytes);
            let (next, labels) = match arrived {
                Ok((arrival, requested)) => {
                    let answers = next.take(requested);
                    let mut labels: Vec<_> = answers.iter().map(|(_, answer)| answer.name()).collect();
                    if let Arrival::Answered(answer) = arrival {
                        labels.push(answer.name());
                    }
                    (Ok(next), labels)
                }
                Err(violation) => (Err(violation), Vec::new()),
            };
            let event = "a request arrives".to_owned();
            steps.push(Step { event, next, labels });
        }
        for waiter in self.checker.waiters() {
            steps.push(self.step(&format!("{waiter:?} disconnects"), Event::Left(waiter.clone()), |_| {}));
        }
    }

    /// Operations in flight end, with the state of the engine when they started or with the present one.
    fn results(&self, steps: &mut Vec<Step>) {
        for (list, then) in &self.lists {
            let now = self.engine.listed();
            let seen = if now == *then {
                vec![now]
            } else {
                vec![now, then.clone()]
            };
            for engines in seen {
                let event = format!("listed {engines:?}");
                let result = Event::Listed(*list, Some(engines));
                steps.push(self.step(&event, result, |next| {
                    next.lists.remove(list);
                }));
            }
        }
        for (probe, then) in &self.probes {
            let outcomes = BTreeSet::from([*then, self.engine.reachable]);
            for reached in outcomes {
                let event = format!("{probe:?} ends: {reached}");
                let result = Event::Probed(probe.clone(), reached);
                steps.push(self.step(&event, result, |next| {
                    next.probes.remove(probe);
                }));
            }
        }
        for patch in &self.patches {
            let result = Event::Patched(patch.clone(), PatchOutcome::Stored);
            steps.push(self.step("a patch is stored", result, |next| next.store(patch)));
        }
    }

    pub(crate) fn store(&mut self, patch: &Patch) {
        self.patches.remove(patch);
        self.engine.wake_requested = Some(patch.at);
    }

    /// The operator and Kubernetes do their part.
    fn changes(&self, steps: &mut Vec<Step>) {
        let engine = &self.engine;
        if engine.wakes() {
            steps.push(self.changed("the operator wakes the engine", |engine| engine.running = true));
        }
        if engine.exists && engine.running && !engine.ready {
            steps.push(self.changed("the engine reports that it is ready", |engine| engine.ready = true));
        }
        if engine.exists && engine.running && !engine.reachable {
            steps.push(self.changed("Envoy reaches the engine", |engine| engine.reachable = true));
        }
    }

    fn disturb(&self, steps: &mut Vec<Step>) {
        let stop = |engine: &mut EngineState| {
            engine.running = false;
            engine.ready = false;
            engine.reachable = false;
        };
        if self.engine.exists && self.engine.running {
            // The annotation stays.
            steps.push(self.changed("the engine stops", stop));
        }
        if self.engine.exists {
            steps.push(self.changed("the engine is deleted", |engine| {
                stop(engine);
                engine.exists = false;
            }));
            steps.push(self.changed("auto-stop is turned off", |engine| engine.auto_stop = false));
        }
        for list in self.lists.keys() {
            steps.push(self.step("a listing fails", Event::Listed(*list, None), |next| {
                next.lists.remove(list);
            }));
        }
        for patch in &self.patches {
            for (outcome, stored) in [
                (PatchOutcome::Failed, false),
                (PatchOutcome::Failed, true),
                (PatchOutcome::Refused, false),
            ] {
                let event = format!("a patch ends: {outcome:?}, stored: {stored}");
                steps.push(self.step(&event, Event::Patched(patch.clone(), outcome), |next| {
                    next.patches.remove(patch);
                    if stored {
                        next.engine.wake_requested = Some(patch.at);
                    }
                }));
            }
        }
        let mut restarted = self.clone();
        restarted.checker = self.checker.restarted();
        restarted.lists.clear();
        restarted.probes.clear();
        restarted.patches.clear();
        steps.push(restarted.step("the agent restarts", Event::Tick, |_| {}));
    }

    fn time(&self, steps: &mut Vec<Step>) {
        let due = self.checker.state.wake_at().expect("the state machine has started");
        let due = due.max(self.now.monotonic);
        if self.budget.ticks > 0 {
            steps.push(self.step("time passes", Event::Tick, |next| {
                next.budget.ticks -= 1;
                next.pass_until(due);
            }));
        }
    }

    pub(crate) fn pass_until(&mut self, due: Instant) {
        let passed = due.saturating_duration_since(self.now.monotonic);
        self.now.monotonic += passed;
        self.now.wall += passed;
    }
}
