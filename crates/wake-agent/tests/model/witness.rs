//! What must hold between the table and the world.

mod rates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::table::{
    Answer, Arrival, Effect, Engine, Event, LARGEST_BODY, LAST_LOOK, LIST_TIMEOUT, List, Now, OVERHEAD, PATCH_TIMEOUT,
    Patch, PatchOutcome, Probe, Refusal, Route, Settings, Table, WaiterId,
};

use crate::known_bad::Bad;

/// What the table promises: see also [`rates`].
const AFTER_A_STORED_PATCH: Duration = Duration::from_secs(10);

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub what: String,
}

pub type Checked<T> = Result<T, Broken>;

pub fn broken<T>(rule: &'static str, what: String) -> Checked<T> {
    Err(Broken { rule, what })
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    arrived: Instant,
    /// Whether its engine was on the list when it came.
    known: bool,
    weight: u64,
}

/// A probe that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Probing {
    began: Instant,
    /// How often everybody had left the engine by then.
    round: u32,
}

/// What was done for one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    round: u32,
    probed: Option<Instant>,
    /// When a probe last reached it.
    reached: Option<Instant>,
    /// The last patch, and when it began.
    patch: Option<Patch>,
    patch_began: Option<Instant>,
    /// When the last patch that failed ended.
    patch_failed: Option<Instant>,
    /// When the last patch that was stored began.
    patch_stored: Option<Instant>,
}

/// The table, with everything that it said and was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    pub table: Table,
    settings: Settings,
    pub bad: Option<Bad>,
    waiting: BTreeMap<WaiterId, Waiting>,
    probes: BTreeMap<Probe, Probing>,
    records: BTreeMap<Arc<str>, Record>,
    list_began: Option<(List, Instant)>,
    list_ended: Option<(List, Instant)>,
    /// The list that the table goes by, and when it began.
    listed: Option<(Instant, Vec<Engine>)>,
}

/// What the world has to do.
#[derive(Debug, Default)]
pub struct Asked {
    pub lists: Vec<List>,
    pub probes: Vec<Probe>,
    pub patches: Vec<Patch>,
    pub answers: Vec<(WaiterId, Answer)>,
}

impl Witness {
    pub fn new(settings: Settings, bad: Option<Bad>) -> Self {
        let mut tables = settings.clone();
        if bad == Some(Bad::NoBounds) {
            tables.memory *= 2;
        }
        Self {
            table: Table::new(tables),
            settings,
            bad,
            waiting: BTreeMap::new(),
            probes: BTreeMap::new(),
            records: BTreeMap::new(),
            list_began: None,
            list_ended: None,
            listed: None,
        }
    }

    /// Another process in its place, which knows nothing. Connections and requests of the first one are gone with it.
    pub fn restarted(&self) -> Self {
        Self::new(self.settings.clone(), self.bad)
    }

    pub fn waiters(&self) -> impl Iterator<Item = &WaiterId> {
        self.waiting.keys()
    }

    /// Those who have at least that much time left.
    pub fn patient(&self, now: Now, time: Duration) -> Vec<WaiterId> {
        let left = |waiting: &Waiting| (waiting.arrived + self.settings.hold_timeout) >= now.monotonic + time;
        let patient = self.waiting.iter().filter(|(_, waiting)| left(waiting));
        patient.map(|(waiter, _)| waiter.clone()).collect()
    }

    /// The engine as the table should see it.
    fn believed(&self, name: &str) -> Option<&Engine> {
        let (_, engines) = self.listed.as_ref()?;
        let ours = |engine: &&Engine| engine.name == name && engine.instance == self.settings.instance;
        engines.iter().find(ours)
    }

    pub fn believes_it_runs(&self, name: &str) -> bool {
        self.believed(name).is_some_and(|engine| engine.replicas > 0)
    }

    pub fn arrive(&mut self, now: Now, name: &str, bytes: u64) -> Checked<(Arrival, Asked)> {
        let before = self.table.clone();
        let (mut arrival, mut effects) = self.table.arrive(now, name, bytes);
        let shed = arrival == Arrival::Answered(Answer::Refuse(Refusal::Full));
        if shed && self.bad == Some(Bad::StampAfterShed) {
            self.table = before;
            effects.clear();
        }
        if let Arrival::Waits(waiter) = &arrival {
            let waiting = Waiting {
                arrived: now.monotonic,
                known: self.believed(name).is_some(),
                weight: bytes.min(LARGEST_BODY) + OVERHEAD,
            };
            if self.waiting.insert(waiter.clone(), waiting).is_some() {
                return broken("answered once", format!("{waiter:?} is given out twice"));
            }
        }
        if self.bad == Some(Bad::PassToTheStopped) && self.was_just_reached(now, name) {
            arrival = Arrival::Answered(Answer::Route(Route::Reachable));
        }
        self.passes_to_the_running(&arrival, name)?;
        let asked = self.check(now, effects, None)?;
        if shed {
            self.shed_with_a_stamp(now, name)?;
        }
        Ok((arrival, asked))
    }

    fn was_just_reached(&self, now: Now, name: &str) -> bool {
        let reached = self.records.get(name).and_then(|record| record.reached);
        reached.is_some_and(|reached| now.monotonic < reached + Duration::from_secs(1))
    }

    /// A probe of others is no reason to pass to an engine that is being stopped.
    fn passes_to_the_running(&self, arrival: &Arrival, name: &str) -> Checked<()> {
        let reachable = *arrival == Arrival::Answered(Answer::Route(Route::Reachable));
        if reachable && !self.believes_it_runs(name) {
            return broken("passed to the stopped", format!("{:?}", self.believed(name)));
        }
        Ok(())
    }

    pub fn handle(&mut self, now: Now, mut event: Event) -> Checked<Asked> {
        let cause = self.note(now, &event);
        self.distort(&mut event);
        let effects = self.table.handle(now, event);
        let asked = self.check(now, effects, cause)?;
        let deadline = |waiting: &Waiting| waiting.arrived + self.settings.hold_timeout;
        let late = self
            .waiting
            .iter()
            .find(|(_, waiting)| deadline(waiting) <= now.monotonic);
        match late {
            Some((waiter, _)) => broken("deadline", format!("{waiter:?} is still waiting")),
            None => Ok(asked),
        }
    }

    fn distort(&self, event: &mut Event) {
        match (self.bad, event) {
            (Some(Bad::ReleaseByName), Event::Probed(probe, _)) => {
                let newest = self.probes.keys().filter(|other| other.engine == probe.engine);
                *probe = newest.max().unwrap_or(probe).clone();
            }
            (Some(Bad::UnheardProbes), Event::Probed(_, reached)) => *reached = false,
            (Some(Bad::StampTooOften), Event::Patched(_, outcome)) => *outcome = PatchOutcome::Failed,
            (Some(Bad::StampTheRunning), Event::Listed(_, Some(engines))) => {
                for engine in engines.iter_mut().filter(|engine| !engine.ready) {
                    engine.replicas = 0;
                }
            }
            _ => {}
        }
    }

    /// Remembers what the table is told. Returns the probe that may release somebody.
    fn note(&mut self, now: Now, event: &Event) -> Option<Probing> {
        match event {
            Event::Left(waiter) => {
                self.waiting.remove(waiter);
                self.count_round(waiter);
                None
            }
            Event::Listed(list, engines) => {
                let current = self.list_began.filter(|(newest, began)| {
                    // One that was given up says nothing any more.
                    newest == list && now.monotonic < *began + LIST_TIMEOUT
                });
                if let (Some((_, began)), Some(engines)) = (current, engines) {
                    self.listed = Some((began, engines.clone()));
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
                // One that was given up counts as failed, whatever becomes of it.
                let given_up = record
                    .patch_began
                    .is_none_or(|began| now.monotonic >= began + PATCH_TIMEOUT);
                if record.patch.as_ref() == Some(patch) && !given_up {
                    match outcome {
                        PatchOutcome::Stored => record.patch_stored = record.patch_began,
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

    fn check(&mut self, now: Now, mut effects: Vec<Effect>, cause: Option<Probing>) -> Checked<Asked> {
        if self.bad == Some(Bad::AnswerTwice) {
            let released = |effect: &&Effect| matches!(effect, Effect::Answer(_, Answer::Route(Route::Released(_))));
            effects.extend(effects.iter().find(released).cloned());
        }
        let mut asked = Asked::default();
        // Everybody is answered as things were before.
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
                    asked.answers.push((waiter, answer));
                }
                Effect::List(list) => {
                    self.list_begins(now, list)?;
                    asked.lists.push(list);
                }
                Effect::Probe(probe) => {
                    if self.skips(now, &probe) {
                        continue;
                    }
                    self.probe_begins(now, &probe)?;
                    asked.probes.push(probe);
                }
                Effect::Patch(patch) => {
                    self.patch_begins(now, &patch)?;
                    asked.patches.push(patch);
                }
            }
        }
        self.bounds()?;
        Ok(asked)
    }

    fn bounds(&self) -> Checked<()> {
        let waiting = (self.waiting.len(), self.waiting.values().map(|one| one.weight).sum());
        if waiting.1 > self.settings.memory {
            return broken("capacity", format!("{waiting:?} wait"));
        }
        let strangers = self
            .waiting
            .iter()
            .filter(|(waiter, one)| !one.known && self.believed(&waiter.engine).is_none());
        let strangers: Vec<u64> = strangers.map(|(_, one)| one.weight).collect();
        // One may be as large as it likes.
        if strangers.len() > 1 && strangers.iter().sum::<u64>() > self.settings.memory / 4 {
            return broken("capacity", format!("strangers take up {strangers:?}"));
        }
        let told = (self.table.waiting(), self.table.waiting_bytes());
        if waiting != told && self.bad.is_none() {
            return broken("capacity", format!("{waiting:?} wait, not {told:?}"));
        }
        Ok(())
    }

    /// Probes that the known-bad variants do without.
    fn skips(&self, now: Now, probe: &Probe) -> bool {
        let mut waiting = self.waiting.iter().filter(|(waiter, _)| waiter.engine == probe.engine);
        match self.bad {
            Some(Bad::NoLastLook) => waiting.any(|(_, waiting)| {
                let deadline = waiting.arrived + self.settings.hold_timeout;
                deadline <= now.monotonic + LAST_LOOK
            }),
            _ => false,
        }
    }

    fn answered(
        &mut self,
        now: Now,
        waiter: &WaiterId,
        answer: &Answer,
        cause: Option<Probing>,
        rounds: &BTreeMap<Arc<str>, u32>,
    ) -> Checked<()> {
        let Some(waiting) = self.waiting.remove(waiter) else {
            return broken(
                "answered once",
                format!("{waiter:?} does not wait and is told {answer:?}"),
            );
        };
        let engine = Arc::clone(&waiter.engine);
        let record = self.records.entry(engine.clone()).or_default().clone();
        let deadline = waiting.arrived + self.settings.hold_timeout;
        let believed = self.believed(&engine).cloned();
        let over = now.monotonic >= deadline;
        match answer {
            Answer::Route(Route::Released(_)) => {
                let round = rounds.get(&engine).copied().unwrap_or_default();
                let by_probe = cause.is_some_and(|probe| probe.round == round);
                let left_to_envoy = over && believed.is_some_and(|engine| engine.ready);
                if !by_probe && !left_to_envoy {
                    return broken(
                        "released by old news",
                        format!("{waiter:?} by {cause:?} in round {round}"),
                    );
                }
            }
            Answer::Refuse(Refusal::TimedOut(_)) => {
                let looked = record.probed.is_some_and(|probed| probed + LAST_LOOK >= deadline);
                let looking = self.probes.iter().any(|(probe, _)| probe.engine == engine);
                if !over || !(looked || looking) {
                    return broken("sent away without a last look", format!("{waiter:?}, {record:?}"));
                }
            }
            Answer::Refuse(Refusal::NotFound) => {
                let began = self.listed.as_ref().map(|(began, _)| *began);
                let newer = waiting.known || began >= Some(waiting.arrived);
                if believed.is_some() || !newer {
                    return broken("not found", format!("{waiter:?} although {believed:?}"));
                }
            }
            Answer::Refuse(Refusal::Stopped) => {
                let deaf = |engine: &Engine| engine.replicas == 0 && engine.auto_stop == Some(AutoStopReason::Disabled);
                if !believed.as_ref().is_some_and(deaf) {
                    return broken("stopped", format!("{waiter:?} although {believed:?}"));
                }
            }
            Answer::Refuse(Refusal::Malformed | Refusal::Full) => {
                return broken("answered once", format!("{waiter:?} was let in and is told {answer:?}"));
            }
            Answer::Route(Route::Ready | Route::Reachable | Route::Blind)
            | Answer::Refuse(Refusal::NotAllowed(_) | Refusal::Closing(_)) => {}
        }
        self.count_round(waiter);
        Ok(())
    }

    fn shed_with_a_stamp(&mut self, now: Now, name: &str) -> Checked<()> {
        let Some(engine) = self.believed(name).filter(|engine| engine.replicas == 0) else {
            return Ok(());
        };
        let seen = engine
            .wake_requested
            .map(|at| now.wall.duration_since(at).unsigned_abs());
        let young = seen.is_some_and(|age| age < AFTER_A_STORED_PATCH);
        let asked = self
            .records
            .get(name)
            .is_some_and(|record| record.patch_began.is_some());
        if young || asked {
            return Ok(());
        }
        broken("shed without a stamp", format!("{engine:?}"))
    }
}

fn is_timeout(answer: &Answer) -> bool {
    matches!(answer, Answer::Refuse(Refusal::TimedOut(_)))
}
