//! A table, a clock, and the short way to say what happens.

use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use jiff::Timestamp;

use crate::table::{
    Answer, Arrival, Effect, Engine, Event, List, Now, OVERHEAD, Patch, PatchOutcome, Probe, Refusal, Route, Settings,
    Table, WaiterId,
};

pub const HOLD_TIMEOUT: Duration = Duration::from_mins(2);

/// A stopped engine of our instance, with auto-stop.
pub fn engine(name: &str) -> Engine {
    Engine {
        name: name.to_owned(),
        instance: "main".to_owned(),
        replicas: 0,
        ready: false,
        auto_stop: Some(AutoStopReason::Stopped),
        wake_requested: None,
    }
}

impl Engine {
    pub(super) fn starting(mut self) -> Self {
        self.replicas = 1;
        self
    }

    pub(super) fn ready(mut self) -> Self {
        self.replicas = 1;
        self.ready = true;
        self
    }

    pub(super) fn without_auto_stop(mut self) -> Self {
        self.auto_stop = Some(AutoStopReason::Disabled);
        self
    }

    pub(super) fn of(mut self, instance: &str) -> Self {
        instance.clone_into(&mut self.instance);
        self
    }

    pub(super) fn woken(mut self, at: Timestamp) -> Self {
        self.wake_requested = Some(at);
        self
    }
}

/// A table with its clock, and everything that it wants done.
pub struct Desk {
    pub table: Table,
    pub now: Now,
    pub answers: Vec<(WaiterId, Answer)>,
    pub lists: Vec<List>,
    pub probes: Vec<Probe>,
    pub patches: Vec<Patch>,
}

impl Desk {
    /// Nothing is known yet, and so many requests without a body may wait.
    pub fn new(room: u64) -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory: room * OVERHEAD,
            hold_timeout: HOLD_TIMEOUT,
        };
        let now = Now {
            // Far from where the clock of this machine began, whenever it did.
            monotonic: Instant::now() + Duration::from_hours(1),
            wall: "2026-06-01T12:00:00.123456Z".parse().expect("a time"),
        };
        let mut desk = Self {
            table: Table::new(settings),
            now,
            answers: Vec::new(),
            lists: Vec::new(),
            probes: Vec::new(),
            patches: Vec::new(),
        };
        desk.handle(Event::Tick);
        desk
    }

    /// These engines are on the list, and twelve requests without a body may wait.
    pub fn with(engines: &[Engine]) -> Self {
        let mut desk = Self::new(12);
        desk.list(engines);
        desk
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(waiter, answer) => self.answers.push((waiter, answer)),
                Effect::List(list) => self.lists.push(list),
                Effect::Probe(probe) => self.probes.push(probe),
                Effect::Patch(patch) => self.patches.push(patch),
            }
        }
    }

    pub fn handle(&mut self, event: Event) {
        let effects = self.table.handle(self.now, event);
        self.take(effects);
    }

    pub fn arrive(&mut self, engine: &str) -> Arrival {
        self.arrive_with(engine, 0)
    }

    /// A request comes with a body.
    pub fn arrive_with(&mut self, engine: &str, bytes: u64) -> Arrival {
        let (arrival, effects) = self.table.arrive(self.now, engine, bytes);
        self.take(effects);
        arrival
    }

    /// A request comes and has to wait.
    pub fn wait(&mut self, engine: &str) -> WaiterId {
        match self.arrive(engine) {
            Arrival::Waits(waiter) => waiter,
            Arrival::Answered(answer) => panic!("{engine} is answered at once: {answer:?}"),
        }
    }

    /// A request comes and is refused at once.
    pub fn refused(&mut self, engine: &str) -> Refusal {
        match self.arrive(engine) {
            Arrival::Answered(Answer::Refuse(refusal)) => refusal,
            other => panic!("{engine} is not refused: {other:?}"),
        }
    }

    /// A request comes and passes at once.
    pub fn passed(&mut self, engine: &str) -> Route {
        match self.arrive(engine) {
            Arrival::Answered(Answer::Route(route)) => route,
            other => panic!("{engine} does not pass: {other:?}"),
        }
    }

    /// The listing under way ends.
    pub fn list(&mut self, engines: &[Engine]) {
        let list = self.lists.pop().expect("a listing is under way");
        self.handle(Event::Listed(list, Some(engines.to_vec())));
    }

    pub fn list_fails(&mut self) {
        let list = self.lists.pop().expect("a listing is under way");
        self.handle(Event::Listed(list, None));
    }

    /// The newest probe ends.
    pub fn probe(&mut self, reached: bool) {
        let probe = self.probes.pop().expect("a probe is under way");
        self.handle(Event::Probed(probe, reached));
    }

    /// The newest patch ends.
    pub fn patch(&mut self, outcome: PatchOutcome) {
        let patch = self.patches.pop().expect("a patch is under way");
        self.handle(Event::Patched(patch, outcome));
    }

    /// Time passes, with a tick whenever the table wants one.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now.monotonic + time;
        while let Some(due) = self.table.wake_at().filter(|due| *due <= end) {
            self.jump(due);
            self.handle(Event::Tick);
            let next = self.table.wake_at();
            assert!(
                next.is_none_or(|next| next > self.now.monotonic),
                "a tick leaves something undone"
            );
        }
        self.jump(end);
    }

    /// Time passes, with every listing answered by these engines, every probe by a failure, and no patch at all.
    pub fn pass_with(&mut self, time: Duration, engines: &[Engine]) {
        let end = self.now.monotonic + time;
        while self.now.monotonic < end {
            let due = self.table.wake_at().expect("the table is awake");
            self.jump(due.max(self.now.monotonic).min(end));
            self.handle(Event::Tick);
            while !self.lists.is_empty() {
                self.list(engines);
            }
            while !self.probes.is_empty() {
                self.probe(false);
            }
        }
    }

    pub fn jump(&mut self, to: Instant) {
        let passed = to.saturating_duration_since(self.now.monotonic);
        self.now.monotonic += passed;
        self.now.wall += passed;
    }

    /// What a request was told, once.
    pub fn told(&self, waiter: &WaiterId) -> Option<&Answer> {
        let mut told = self.answers.iter().filter(|(told, _)| told == waiter);
        let answer = told.next().map(|(_, answer)| answer);
        assert!(told.next().is_none(), "{waiter:?} is told twice");
        answer
    }

    pub fn released(&self, waiter: &WaiterId) -> bool {
        matches!(self.told(waiter), Some(Answer::Route(Route::Released(_))))
    }
}
