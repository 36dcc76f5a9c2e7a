//! A state machine with its clock, and short names for events.

use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use jiff::Timestamp;

use crate::hold::{
    Answer, Arrival, Effect, Engine, Event, HoldState, List, Now, OVERHEAD, Patch, PatchOutcome, Probe, Refusal, Route,
    Settings, WaiterId,
};

pub(super) const HOLD_TIMEOUT: Duration = Duration::from_mins(2);

/// A stopped engine of the instance, with auto-stop.
pub(super) fn engine(name: &str) -> Engine {
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

/// A state machine with its clock, and its effects.
pub(super) struct Fixture {
    pub state: HoldState,
    pub now: Now,
    pub answers: Vec<(WaiterId, Answer)>,
    pub lists: Vec<List>,
    pub probes: Vec<Probe>,
    pub patches: Vec<Patch>,
}

impl Fixture {
    /// No list yet, and room for this many requests without a body.
    pub(super) fn new(room: u64) -> Self {
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
        let mut fixture = Self {
            state: HoldState::new(settings),
            now,
            answers: Vec::new(),
            lists: Vec::new(),
            probes: Vec::new(),
            patches: Vec::new(),
        };
        fixture.handle(Event::Tick);
        fixture
    }

    /// These engines are listed, and there is room for twelve requests without a body.
    pub(super) fn with(engines: &[Engine]) -> Self {
        let mut fixture = Self::new(12);
        fixture.list(engines);
        fixture
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

    pub(super) fn handle(&mut self, event: Event) {
        let effects = self.state.handle(self.now, event);
        self.take(effects);
    }

    pub(super) fn arrive(&mut self, engine: &str) -> Arrival {
        self.arrive_with(engine, 0)
    }

    /// A request with a body arrives.
    pub(super) fn arrive_with(&mut self, engine: &str, bytes: u64) -> Arrival {
        let (arrival, effects) = self.state.arrive(self.now, engine, bytes);
        self.take(effects);
        arrival
    }

    /// A request arrives and is held.
    pub(super) fn wait(&mut self, engine: &str) -> WaiterId {
        match self.arrive(engine) {
            Arrival::Waits(waiter) => waiter,
            Arrival::Answered(answer) => panic!("{engine} is answered at once: {answer:?}"),
        }
    }

    /// A request arrives and is refused at once.
    pub(super) fn refused(&mut self, engine: &str) -> Refusal {
        match self.arrive(engine) {
            Arrival::Answered(Answer::Refuse(refusal)) => refusal,
            other => panic!("{engine} is not refused: {other:?}"),
        }
    }

    /// A request arrives and is routed at once.
    pub(super) fn routed(&mut self, engine: &str) -> Route {
        match self.arrive(engine) {
            Arrival::Answered(Answer::Route(route)) => route,
            other => panic!("{engine} is not routed: {other:?}"),
        }
    }

    /// The listing in flight ends.
    pub(super) fn list(&mut self, engines: &[Engine]) {
        let list = self.lists.pop().expect("a listing is in flight");
        self.handle(Event::Listed(list, Some(engines.to_vec())));
    }

    pub(super) fn list_fails(&mut self) {
        let list = self.lists.pop().expect("a listing is in flight");
        self.handle(Event::Listed(list, None));
    }

    /// The newest probe ends.
    pub(super) fn probe(&mut self, reached: bool) {
        let probe = self.probes.pop().expect("a probe is in flight");
        self.handle(Event::Probed(probe, reached));
    }

    /// The newest patch ends.
    pub(super) fn patch(&mut self, outcome: PatchOutcome) {
        let patch = self.patches.pop().expect("a patch is in flight");
        self.handle(Event::Patched(patch, outcome));
    }

    /// Time passes, with a tick whenever a timer expires.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now.monotonic + time;
        while let Some(due) = self.state.wake_at().filter(|due| *due <= end) {
            self.jump(due);
            self.handle(Event::Tick);
            let next = self.state.wake_at();
            assert!(
                next.is_none_or(|next| next > self.now.monotonic),
                "a timer is still due after its tick"
            );
        }
        self.jump(end);
    }

    /// Time passes: every listing returns these engines, every probe fails, and no patch ends.
    pub(super) fn advance_with(&mut self, time: Duration, engines: &[Engine]) {
        let end = self.now.monotonic + time;
        while self.now.monotonic < end {
            let due = self.state.wake_at().expect("it has started");
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

    pub(super) fn jump(&mut self, to: Instant) {
        let passed = to.saturating_duration_since(self.now.monotonic);
        self.now.monotonic += passed;
        self.now.wall += passed;
    }

    /// The answer to a request. There is at most one.
    pub(super) fn answer_to(&self, waiter: &WaiterId) -> Option<&Answer> {
        let mut answers = self.answers.iter().filter(|(answers, _)| answers == waiter);
        let answer = answers.next().map(|(_, answer)| answer);
        assert!(answers.next().is_none(), "{waiter:?} is answered twice");
        answer
    }

    pub(super) fn released(&self, waiter: &WaiterId) -> bool {
        matches!(self.answer_to(waiter), Some(Answer::Route(Route::Released(_))))
    }
}
