//! A world with one engine: what it is like, and everything that can happen to it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use firebolt_wake_agent::table::{
    Answer, Arrival, Engine, Event, List, Now, OVERHEAD, Patch, PatchOutcome, Probe, Refusal, Route,
};
use firebolt_wake_agent::table::{Settings, WaiterId};

use crate::known_bad::Bad;
use crate::truth::{NAME, Truth};
use crate::witness::{Asked, Checked, Witness, broken};

/// One known engine's request fills this, or four requests without a body; a stranger's may take a quarter.
const MEMORY: u64 = 4 * OVERHEAD;
/// What Envoy may have to keep of a request that takes up all of that.
const ALL_OF_IT: u64 = 3 * OVERHEAD;
const HOLD_TIMEOUT: Duration = Duration::from_secs(1);
/// News that come later than two others of their kind never come.
const UNDER_WAY: usize = 2;
/// With everything at its best: a patch tried again, and then a last look.
const BEST_CASE: Duration = Duration::from_millis(800);
/// More steps than any wait has.
const PATIENCE: usize = 200;

/// What bounds a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// How many requests come.
    pub requests: u8,
    /// How often something goes wrong.
    pub disturbances: u8,
    /// How often time passes until something is due.
    pub ticks: u8,
}

/// When all worlds begin. Any moment will do.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    now: Now,
    witness: Witness,
    truth: Truth,
    /// What is under way, with what was so when it began.
    lists: BTreeMap<List, Vec<Engine>>,
    probes: BTreeMap<Probe, bool>,
    patches: BTreeSet<Patch>,
    budget: Budget,
    /// The size of each request.
    bytes: u64,
}

/// Something that can happen, and the world after it.
pub struct Step {
    pub event: String,
    pub next: Checked<World>,
    pub answers: Vec<Answer>,
}

impl World {
    fn new(budget: Budget, bad: Option<Bad>, memory: u64, bytes: u64, truth: Truth, listed: &[Engine]) -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory,
            hold_timeout: HOLD_TIMEOUT,
        };
        let now = Now {
            monotonic: *BEGAN,
            wall: "2026-06-01T12:00:00Z".parse().expect("a time"),
        };
        let mut world = Self {
            now,
            witness: Witness::new(settings, bad),
            truth,
            lists: BTreeMap::new(),
            probes: BTreeMap::new(),
            patches: BTreeSet::new(),
            budget,
            bytes,
        };
        world.tell(Event::Tick).expect("a table starts");
        let (list, _) = world.lists.pop_first().expect("a table lists at once");
        world
            .tell(Event::Listed(list, Some(listed.to_vec())))
            .expect("a table can be told of engines");
        world
    }

    pub fn stopped(budget: Budget, bad: Option<Bad>) -> Self {
        let truth = Truth {
            exists: true,
            running: false,
            ready: false,
            reachable: false,
            auto_stop: true,
            stamp: None,
        };
        let listed = truth.listed();
        Self::new(budget, bad, MEMORY, ALL_OF_IT, truth, &listed)
    }

    pub fn starting(budget: Budget, bad: Option<Bad>) -> Self {
        let mut truth = Self::stopped(Budget::default(), None).truth;
        truth.running = true;
        let listed = truth.listed();
        Self::new(budget, bad, MEMORY, ALL_OF_IT, truth, &listed)
    }

    /// No room is left, since others wait for other engines.
    pub fn full(budget: Budget, bad: Option<Bad>) -> Self {
        let truth = Self::stopped(Budget::default(), None).truth;
        let listed = truth.listed();
        Self::new(budget, bad, 0, 0, truth, &listed)
    }

    /// The engine was made after the list.
    pub fn unknown(budget: Budget, bad: Option<Bad>) -> Self {
        let truth = Self::stopped(Budget::default(), None).truth;
        Self::new(budget, bad, MEMORY, 0, truth, &[])
    }

    fn tell(&mut self, event: Event) -> Checked<Vec<(WaiterId, Answer)>> {
        let asked = self.witness.handle(self.now, event)?;
        Ok(self.take(asked))
    }

    fn take(&mut self, asked: Asked) -> Vec<(WaiterId, Answer)> {
        let listed = self.truth.listed();
        self.lists
            .extend(asked.lists.into_iter().map(|list| (list, listed.clone())));
        let reachable = self.truth.reachable;
        self.probes
            .extend(asked.probes.into_iter().map(|probe| (probe, reachable)));
        self.patches.extend(asked.patches);
        while self.lists.len() > UNDER_WAY {
            self.lists.pop_first();
        }
        while self.probes.len() > UNDER_WAY {
            self.probes.pop_first();
        }
        while self.patches.len() > UNDER_WAY {
            self.patches.pop_first();
        }
        asked.answers
    }

    /// Everything that can happen next.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.requests(&mut steps);
        self.news(&mut steps);
        self.changes(&mut steps);
        if self.budget.disturbances > 0 {
            let mut disturbed = self.clone();
            disturbed.budget.disturbances -= 1;
            disturbed.disturb(&mut steps);
        }
        self.time(&mut steps);
        steps
    }

    fn told(&self, event: &str, what: Event, change: impl FnOnce(&mut Self)) -> Step {
        let mut next = self.clone();
        change(&mut next);
        let answers = next.tell(what);
        Step {
            event: event.to_owned(),
            answers: answers.iter().flatten().map(|(_, answer)| answer.clone()).collect(),
            next: answers.map(|_| next),
        }
    }

    fn changed(&self, event: &str, change: impl FnOnce(&mut Truth)) -> Step {
        let mut next = self.clone();
        change(&mut next.truth);
        Step {
            event: event.to_owned(),
            next: Ok(next),
            answers: Vec::new(),
        }
    }

    fn requests(&self, steps: &mut Vec<Step>) {
        if self.budget.requests > 0 {
            let mut next = self.clone();
            next.budget.requests -= 1;
            let arrived = next.witness.arrive(next.now, NAME, next.bytes);
            let (next, answers) = match arrived {
                Ok((arrival, asked)) => {
                    let mut answers: Vec<Answer> = next.take(asked).into_iter().map(|(_, answer)| answer).collect();
                    if let Arrival::Answered(answer) = arrival {
                        answers.push(answer);
                    }
                    (Ok(next), answers)
                }
                Err(broken) => (Err(broken), Vec::new()),
            };
            let event = "a request comes".to_owned();
            steps.push(Step { event, next, answers });
        }
        for waiter in self.witness.waiters() {
            steps.push(self.told(&format!("{waiter:?} leaves"), Event::Left(waiter.clone()), |_| {}));
        }
    }

    /// What is under way ends, with what was so when it began or with what is so now.
    fn news(&self, steps: &mut Vec<Step>) {
        for (list, then) in &self.lists {
            let now = self.truth.listed();
            let seen = if now == *then {
                vec![now]
            } else {
                vec![now, then.clone()]
            };
            for engines in seen {
                let event = format!("listed {engines:?}");
                let news = Event::Listed(*list, Some(engines));
                steps.push(self.told(&event, news, |next| {
                    next.lists.remove(list);
                }));
            }
        }
        for (probe, then) in &self.probes {
            let outcomes = BTreeSet::from([*then, self.truth.reachable]);
            for reached in outcomes {
                let event = format!("{probe:?} ends: {reached}");
                let news = Event::Probed(probe.clone(), reached);
                steps.push(self.told(&event, news, |next| {
                    next.probes.remove(probe);
                }));
            }
        }
        for patch in &self.patches {
            let news = Event::Patched(patch.clone(), PatchOutcome::Stored);
            steps.push(self.told("a patch is stored", news, |next| next.store(patch)));
        }
    }

    fn store(&mut self, patch: &Patch) {
        self.patches.remove(patch);
        self.truth.stamp = Some(patch.at);
    }

    /// The operator and Kubernetes do their part.
    fn changes(&self, steps: &mut Vec<Step>) {
        let truth = &self.truth;
        if truth.wakes() {
            steps.push(self.changed("the operator wakes the engine", |truth| truth.running = true));
        }
        if truth.exists && truth.running && !truth.ready {
            steps.push(self.changed("the engine calls itself ready", |truth| truth.ready = true));
        }
        if truth.exists && truth.running && !truth.reachable {
            steps.push(self.changed("Envoy reaches the engine", |truth| truth.reachable = true));
        }
    }

    fn disturb(&self, steps: &mut Vec<Step>) {
        let stop = |truth: &mut Truth| {
            truth.running = false;
            truth.ready = false;
            truth.reachable = false;
        };
        if self.truth.exists && self.truth.running {
            // Nobody takes a stamp away.
            steps.push(self.changed("the engine stops", stop));
        }
        if self.truth.exists {
            steps.push(self.changed("the engine is deleted", |truth| {
                stop(truth);
                truth.exists = false;
            }));
            steps.push(self.changed("auto-stop is turned off", |truth| truth.auto_stop = false));
        }
        for list in self.lists.keys() {
            steps.push(self.told("a listing fails", Event::Listed(*list, None), |next| {
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
                steps.push(self.told(&event, Event::Patched(patch.clone(), outcome), |next| {
                    next.patches.remove(patch);
                    if stored {
                        next.truth.stamp = Some(patch.at);
                    }
                }));
            }
        }
        let mut restarted = self.clone();
        restarted.witness = self.witness.restarted();
        restarted.lists.clear();
        restarted.probes.clear();
        restarted.patches.clear();
        steps.push(restarted.told("the agent restarts", Event::Tick, |_| {}));
    }

    fn time(&self, steps: &mut Vec<Step>) {
        let due = self.witness.table.wake_at().expect("a table that has started is awake");
        let due = due.max(self.now.monotonic);
        if self.budget.ticks > 0 {
            steps.push(self.told("time passes", Event::Tick, |next| {
                next.budget.ticks -= 1;
                next.pass_until(due);
            }));
        }
    }

    fn pass_until(&mut self, due: Instant) {
        let passed = due.saturating_duration_since(self.now.monotonic);
        self.now.monotonic += passed;
        self.now.wall += passed;
    }

    /// From here, with everything at its best: nobody is stranded. `calm` is where that was found already.
    pub fn comes_to_rest(&self, calm: &mut HashSet<u64>) -> Checked<()> {
        let mut world = self.clone();
        let truth = &world.truth;
        // An engine that has just stopped is woken after the next list, which may be too late.
        let noticed = truth.running || truth.stamp.is_some() || !world.witness.believes_it_runs(NAME);
        let hopeful = truth.exists && truth.auto_stop && noticed;
        let mut patient = world.witness.patient(world.now, BEST_CASE);
        patient.retain(|_| hopeful);
        let mut path = Vec::new();
        for _ in 0..PATIENCE {
            let mut answers = BTreeMap::new();
            world.help(&mut answers)?;
            let due = world
                .witness
                .table
                .wake_at()
                .expect("a table that has started is awake");
            world.pass_until(due);
            answers.extend(world.tell(Event::Tick)?);
            for waiter in &patient {
                if let Some(answer) = answers.get(waiter).filter(|answer| at_the_end(answer)) {
                    return broken("stranded", format!("{waiter:?} is told {answer:?}"));
                }
            }
            patient.retain(|waiter| !answers.contains_key(waiter));
            let here = fingerprint(&(&world, &patient));
            path.push(here);
            if calm.contains(&here) || world.witness.waiters().next().is_none() {
                calm.extend(path);
                return Ok(());
            }
        }
        broken("stranded", "somebody waits for ever".to_owned())
    }

    fn help(&mut self, answers: &mut BTreeMap<WaiterId, Answer>) -> Checked<()> {
        while let Some(patch) = self.patches.first().cloned() {
            self.store(&patch);
            answers.extend(self.tell(Event::Patched(patch, PatchOutcome::Stored))?);
        }
        if self.truth.wakes() {
            self.truth.running = true;
        }
        let running = self.truth.exists && self.truth.running;
        self.truth.ready = running;
        self.truth.reachable = running;
        while let Some((list, _)) = self.lists.pop_first() {
            answers.extend(self.tell(Event::Listed(list, Some(self.truth.listed())))?);
        }
        while let Some((probe, _)) = self.probes.pop_first() {
            answers.extend(self.tell(Event::Probed(probe, self.truth.reachable))?);
        }
        Ok(())
    }
}

/// Whether somebody had to wait until the end.
fn at_the_end(answer: &Answer) -> bool {
    match answer {
        Answer::Route(Route::Released(stages)) | Answer::Refuse(Refusal::TimedOut(stages)) => {
            stages.released >= HOLD_TIMEOUT
        }
        Answer::Route(_) | Answer::Refuse(_) => false,
    }
}

/// States are told apart by a hash of 64 bits, so that millions of them need little room. Two of a million share one by
/// chance once in some ten million searches.
pub fn fingerprint(state: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

/// The name of an answer.
pub fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Route(Route::Ready) => "Ready",
        Answer::Route(Route::Reachable) => "Reachable",
        Answer::Route(Route::Released(_)) => "Released",
        Answer::Route(Route::Blind) => "Blind",
        Answer::Refuse(Refusal::Malformed) => "Malformed",
        Answer::Refuse(Refusal::NotFound) => "NotFound",
        Answer::Refuse(Refusal::Stopped) => "Stopped",
        Answer::Refuse(Refusal::NotAllowed(_)) => "NotAllowed",
        Answer::Refuse(Refusal::Full) => "Full",
        Answer::Refuse(Refusal::TimedOut(_)) => "TimedOut",
        Answer::Refuse(Refusal::Closing(_)) => "Closing",
    }
}
