//! What must hold between the state machine and the world.

mod answers;
mod rates;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firebolt_wake_agent::hold::{
    Answer, Arrival, Effect, Engine, Event, FINAL_PROBE, HoldState, LARGEST_BODY, LIST_TIMEOUT, List, Now, OVERHEAD,
    PATCH_TIMEOUT, Patch, PatchOutcome, Probe, Refusal, Route, Settings, WaiterId,
};

use crate::known_bad::Bad;

/// A guarantee of the state machine; see also [`rates`].
const AFTER_A_STORED_PATCH: Duration = Duration::from_secs(10);

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

pub(crate) type Checked<T> = Result<T, Violation>;

pub(crate) fn violation<T>(rule: &'static str, what: String) -> Checked<T> {
    Err(Violation { rule, what })
}

/// A held request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    arrived: Instant,
    /// Whether its engine was listed when it arrived.
    known: bool,
    weight: u64,
}

/// A probe in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Probing {
    started: Instant,
    /// How often the queue of the engine had become empty before it started.
    round: u32,
}

/// What was requested for one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    round: u32,
    probed: Option<Instant>,
    /// When a probe last reached it.
    reached: Option<Instant>,
    /// The last patch, and when it started.
    patch: Option<Patch>,
    patch_started: Option<Instant>,
    /// When the last patch that failed ended.
    patch_failed: Option<Instant>,
    /// When the last patch that was stored started.
    patch_stored: Option<Instant>,
}

/// The state machine, with its events and effects so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Checker {
    pub state: HoldState,
    settings: Settings,
    pub bad: Option<Bad>,
    waiting: BTreeMap<WaiterId, Waiting>,
    probes: BTreeMap<Probe, Probing>,
    records: BTreeMap<Arc<str>, Record>,
    list_started: Option<(List, Instant)>,
    list_ended: Option<(List, Instant)>,
    /// The list that the state machine uses, and when its listing started.
    listed: Option<(Instant, Vec<Engine>)>,
}

/// The effects that the world has to carry out.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    pub lists: Vec<List>,
    pub probes: Vec<Probe>,
    pub patches: Vec<Patch>,
    pub answers: Vec<(WaiterId, Answer)>,
}

impl Checker {
    pub(crate) fn new(settings: Settings, bad: Option<Bad>) -> Self {
        let mut tables = settings.clone();
        if bad == Some(Bad::NoMemoryLimit) {
            tables.memory *= 2;
        }
        Self {
            state: HoldState::new(tables),
            settings,
            bad,
            waiting: BTreeMap::new(),
            probes: BTreeMap::new(),
            records: BTreeMap::new(),
            list_started: None,
            list_ended: None,
            listed: None,
        }
    }

    /// A new process in its place, with an empty state. Connections and requests of the old one are gone.
    pub(crate) fn restarted(&self) -> Self {
        Self::new(self.settings.clone(), self.bad)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &WaiterId> {
        self.waiting.keys()
    }

    /// The requests that have at least that much time left.
    pub(crate) fn patient(&self, now: Now, time: Duration) -> Vec<WaiterId> {
        let left = |waiting: &Waiting| (waiting.arrived + self.settings.hold_timeout) >= now.monotonic + time;
        let patient = self.waiting.iter().filter(|(_, waiting)| left(waiting));
        patient.map(|(waiter, _)| waiter.clone()).collect()
    }

    /// The engine as the state machine should see it.
    fn listed_engine(&self, name: &str) -> Option<&Engine> {
        let (_, engines) = self.listed.as_ref()?;
        let ours = |engine: &&Engine| engine.name == name && engine.instance == self.settings.instance;
        engines.iter().find(ours)
    }

    pub(crate) fn is_listed_running(&self, name: &str) -> bool {
        self.listed_engine(name).is_some_and(|engine| engine.replicas > 0)
    }

    pub(crate) fn arrive(&mut self, now: Now, name: &str, bytes: u64) -> Checked<(Arrival, Requested)> {
        let before = self.state.clone();
        let (mut arrival, mut effects) = self.state.arrive(now, name, bytes);
        let refused = arrival == Arrival::Answered(Answer::Refuse(Refusal::Full));
        if refused && self.bad == Some(Bad::RequestWakeAfterRefusal) {
            self.state = before;
            effects.clear();
        }
        if let Arrival::Waits(waiter) = &arrival {
            let waiting = Waiting {
                arrived: now.monotonic,
                known: self.listed_engine(name).is_some(),
                weight: bytes.min(LARGEST_BODY) + OVERHEAD,
            };
            if self.waiting.insert(waiter.clone(), waiting).is_some() {
                return violation("answered once", format!("{waiter:?} is assigned twice"));
            }
        }
        if self.bad == Some(Bad::RouteToStoppingEngine) && self.was_just_reached(now, name) {
            arrival = Arrival::Answered(Answer::Route(Route::Reachable));
        }
        self.routes_to_running_engine(&arrival, name)?;
        let requested = self.check(now, effects, None)?;
        if refused {
            self.refused_with_wake_request(now, name)?;
        }
        Ok((arrival, requested))
    }

    fn was_just_reached(&self, now: Now, name: &str) -> bool {
        let reached = self.records.get(name).and_then(|record| record.reached);
        reached.is_some_and(|reached| now.monotonic < reached + Duration::from_secs(1))
    }

    /// The probe of an earlier request is no reason to route to an engine that is stopping.
    fn routes_to_running_engine(&self, arrival: &Arrival, name: &str) -> Checked<()> {
        let reachable = *arrival == Arrival::Answered(Answer::Route(Route::Reachable));
        if reachable && !self.is_listed_running(name) {
            return violation("routed to a stopping engine", format!("{:?}", self.listed_engine(name)));
        }
        Ok(())
    }

    pub(crate) fn handle(&mut self, now: Now, mut event: Event) -> Checked<Requested> {
        let cause = self.note(now, &event);
        self.distort(&mut event);
        let effects = self.state.handle(now, event);
        let requested = self.check(now, effects, cause)?;
        let deadline = |waiting: &Waiting| waiting.arrived + self.settings.hold_timeout;
        let late = self
            .waiting
            .iter()
            .find(|(_, waiting)| deadline(waiting) <= now.monotonic);
        match late {
            Some((waiter, _)) => violation("deadline", format!("{waiter:?} is still waiting")),
            None => Ok(requested),
        }
    }

    fn distort(&self, event: &mut Event) {
        match (self.bad, event) {
            (Some(Bad::ReleaseByName), Event::Probed(probe, _)) => {
                let newest = self.probes.keys().filter(|other| other.engine == probe.engine);
                *probe = newest.max().unwrap_or(probe).clone();
            }
            (Some(Bad::IgnoreProbes), Event::Probed(_, reached)) => *reached = false,
            (Some(Bad::RequestWakeTooOften), Event::Patched(_, outcome)) => *outcome = PatchOutcome::Failed,
            (Some(Bad::WakeRunningEngine), Event::Listed(_, Some(engines))) => {
                for engine in engines.iter_mut().filter(|engine| !engine.ready) {
                    engine.replicas = 0;
                }
            }
            _ => {}
        }
    }

    /// Records an event. Returns the probe that may release requests.
    fn note(&mut self, now: Now, event: &Event) -> Option<Probing> {
        match event {
            Event::Left(waiter) => {
                self.waiting.remove(waiter);
                self.count_round(waiter);
                None
            }
            Event::Listed(list, engines) => {
                let current = self.list_started.filter(|(newest, started)| {
                    // The result of one that timed out is ignored.
                    newest == list && now.monotonic < *started + LIST_TIMEOUT
                });
                if let (Some((_, started)), Some(engines)) = (current, engines) {
                    self.listed = Some((started, engines.clone()));
                }
                self.list_ended = current.map(|(list, _)| (list, now.monotonic)).or(self.list_ended);
                None
            }
            Event::Probed(probe, reached) => {
                let probing = self.probes.remove(probe).filter(|_| *reached)?;
                let record = self.records.entry(Arc::clone(&probe.engine)).or_default();
                record.reached = Some(now.monotonic);
                Some(probing)
            }
            Event::Patched(patch, outcome) => {
                let record = self.records.entry(Arc::clone(&patch.engine)).or_default();
                // One that timed out counts as failed, whatever its result.
                let timed_out = record
                    .patch_started
                    .is_none_or(|started| now.monotonic >= started + PATCH_TIMEOUT);
                if record.patch.as_ref() == Some(patch) && !timed_out {
                    match outcome {
                        PatchOutcome::Stored => record.patch_stored = record.patch_started,
                        PatchOutcome::Failed | PatchOutcome::Refused => record.patch_failed = Some(now.monotonic),
                    }
                }
                None
            }
            Event::Tick | Event::Closing(_) => None,
        }
    }

    fn count_round(&mut self, left: &WaiterId) {
        let engine = Arc::clone(&left.engine);
        if !self.waiting.keys().any(|waiter| waiter.engine == engine) {
            self.records.entry(engine).or_default().round += 1;
        }
    }

    fn check(&mut self, now: Now, mut effects: Vec<Effect>, cause: Option<Probing>) -> Checked<Requested> {
        if self.bad == Some(Bad::AnswerTwice) {
            let released = |effect: &&Effect| matches!(effect, Effect::Answer(_, Answer::Route(Route::Released(_))));
            effects.extend(effects.iter().find(released).cloned());
        }
        let mut requested = Requested::default();
        // All answers refer to the rounds before.
        let rounds: BTreeMap<_, _> = self
            .records
            .iter()
            .map(|(name, record)| (name.clone(), record.round))
            .collect();
        for effect in effects {
            match effect {
                Effect::Answer(waiter, answer) => {
                    if self.bad == Some(Bad::LoseAnAnswer) && is_timeout(&answer) {
                        continue;
                    }
                    self.answered(now, &waiter, &answer, cause, &rounds)?;
                    requested.answers.push((waiter, answer));
                }
                Effect::List(list) => {
                    self.list_starts(now, list)?;
                    requested.lists.push(list);
                }
                Effect::Probe(probe) => {
                    if self.skips(now, &probe) {
                        continue;
                    }
                    self.probe_starts(now, &probe)?;
                    requested.probes.push(probe);
                }
                Effect::Patch(patch) => {
                    self.patch_starts(now, &patch)?;
                    requested.patches.push(patch);
                }
            }
        }
        self.bounds()?;
        Ok(requested)
    }

    fn bounds(&self) -> Checked<()> {
        let waiting = (self.waiting.len(), self.waiting.values().map(|one| one.weight).sum());
        if waiting.1 > self.settings.memory {
            return violation("capacity", format!("{waiting:?} wait"));
        }
        let unknown = self
            .waiting
            .iter()
            .filter(|(waiter, one)| !one.known && self.listed_engine(&waiter.engine).is_none());
        let unknown: Vec<u64> = unknown.map(|(_, one)| one.weight).collect();
        // One may be as large as it likes.
        if unknown.len() > 1 && unknown.iter().sum::<u64>() > self.settings.memory / 4 {
            return violation("capacity", format!("unknown engines occupy {unknown:?}"));
        }
        let reported = (self.state.occupancy().waiting, self.state.occupancy().bytes);
        if waiting != reported && self.bad.is_none() {
            return violation("capacity", format!("{waiting:?} wait, not {reported:?}"));
        }
        Ok(())
    }

    /// Probes that known-bad variants do not start.
    fn skips(&self, now: Now, probe: &Probe) -> bool {
        let mut waiting = self.waiting.iter().filter(|(waiter, _)| waiter.engine == probe.engine);
        match self.bad {
            Some(Bad::NoFinalProbe) => waiting.any(|(_, waiting)| {
                let deadline = waiting.arrived + self.settings.hold_timeout;
                deadline <= now.monotonic + FINAL_PROBE
            }),
            _ => false,
        }
    }
}

fn is_timeout(answer: &Answer) -> bool {
    matches!(answer, Answer::Refuse(Refusal::TimedOut(_)))
}
