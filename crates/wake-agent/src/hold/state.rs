//! The state, its entry points, and what both arrivals and events decide from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer::{Answer, Refusal, Route};
use super::engine::Engine;
use super::engine_queue::{EngineQueue, Waiter};
use super::event::{Arrival, Effect, Event, List, Now, Probe, WaiterId};
use super::listing::{self, Listing};
use super::time::earliest;
use super::weighted_queue::{Weighted, WeightedQueue};

/// Settings that never change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The instance that this gateway belongs to.
    pub instance: String,
    /// The maximum number of bytes that held requests may occupy in Envoy.
    pub memory: u64,
    /// The maximum time that a request is held.
    pub hold_timeout: Duration,
}

/// How full the queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The number of held requests.
    pub waiting: usize,
    /// The memory that they occupy in Envoy.
    pub bytes: u64,
    /// Whether the engines were ever listed.
    pub synced: bool,
}

/// The held requests, and what is known of the engines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldState {
    pub(super) settings: Settings,
    pub(super) listing: Listing,
    /// The engines of this instance.
    pub(super) known: BTreeMap<Arc<str>, KnownEngine>,
    /// One queue for each engine that is not ready.
    pub(super) queues: BTreeMap<Arc<str>, EngineQueue>,
    /// When each queue is due.
    pub(super) timers: BTreeSet<(Instant, Arc<str>)>,
    /// Requests for engines that are not in the list.
    pub(super) unknown: WeightedQueue<UnknownWaiter>,
    pub(super) closing: Option<Instant>,
    /// The last number that was assigned to a request, a listing, a probe or a patch.
    number: u64,
}

/// An engine of this instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KnownEngine {
    pub engine: Engine,
    /// The time in the wake annotation, as a time of the monotonic clock. None if it is not plausible.
    pub wake_requested: Option<Instant>,
}

/// A request for an unknown engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnknownWaiter {
    pub name: Arc<str>,
    pub arrived: Instant,
    pub weight: u64,
}

impl Weighted for UnknownWaiter {
    fn weight(&self) -> u64 {
        self.weight
    }
}

/// What to do with a request for an engine.
pub(super) enum Disposition {
    Answer(Answer),
    /// The engine is not in the list.
    UnknownEngine,
    Hold,
}

/// The engines that an event may affect.
pub(super) enum AdvanceScope {
    All,
    /// Those whose timers have expired.
    Due,
    Engine(Arc<str>),
}

impl HoldState {
    /// An empty state. [`Event::Tick`] starts it.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            listing: Listing::default(),
            known: BTreeMap::new(),
            queues: BTreeMap::new(),
            timers: BTreeSet::new(),
            unknown: WeightedQueue::default(),
            closing: None,
            number: 0,
        }
    }

    /// How full the queue is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            waiting: self.unknown.len() + self.queues.values().map(EngineQueue::len).sum::<usize>(),
            bytes: self.occupied_bytes(),
            synced: self.listing.synced(),
        }
    }

    pub(super) fn occupied_bytes(&self) -> u64 {
        self.unknown.weight() + self.queues.values().map(EngineQueue::weight).sum::<u64>()
    }

    /// When to send [`Event::Tick`], as of the last call. None before the first one.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        let first = self.timers.first().map(|(due, _)| *due);
        debug_assert_eq!(first, self.first_due(), "the timers are out of date");
        let deadline = |waiter| unknown_deadline(waiter, self.settings.hold_timeout, self.closing);
        let unknown = self.unknown.first().map(deadline);
        let listing = self.listing.due(self.is_holding(), self.list_requested_at());
        earliest(earliest(first, unknown), listing)
    }

    /// The earliest timer, computed from all queues.
    fn first_due(&self) -> Option<Instant> {
        let dues = self.queues.iter().filter_map(|(name, queue)| self.due(name, queue));
        dues.min()
    }

    /// When something has to be done for an engine.
    pub(super) fn due(&self, name: &Arc<str>, queue: &EngineQueue) -> Option<Instant> {
        let wakeable = self.known.get(name).filter(|known| known.engine.is_wakeable());
        let patch = wakeable.and_then(|known| queue.wake_requests.due(known.wake_requested, queue.waiting_since()));
        earliest(queue.due(self.closing), patch)
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.unknown.is_empty() || self.queues.values().any(|queue| queue.len() > 0)
    }

    /// Since when a request has been held for a newer list. All of them arrived after the last listing started.
    pub(super) fn list_requested_at(&self) -> Option<Instant> {
        self.unknown.first().map(|waiter| waiter.arrived)
    }

    /// A request arrived, of which Envoy may have to buffer up to `bytes`. A request for an engine that is ready costs
    /// one lookup; once a second it also starts a listing. If it is answered at once and without effects, the result of
    /// [`HoldState::wake_at`] has not changed.
    #[must_use]
    pub fn arrive(&mut self, now: Now, engine: &str, bytes: u64) -> (Arrival, Vec<Effect>) {
        let mut effects = Vec::new();
        let arrival = self.admit(now, engine, bytes, &mut effects);
        (arrival, effects)
    }

    /// An event occurred.
    #[must_use]
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let scope = match event {
            Event::Tick => AdvanceScope::Due,
            Event::Closing(by) => {
                self.closing = earliest(self.closing, Some(by));
                AdvanceScope::All
            }
            Event::Left(waiter) => {
                self.left(&waiter);
                AdvanceScope::Engine(waiter.engine)
            }
            Event::Listed(list, engines) => {
                self.listed(now, list.id, engines, &mut effects);
                AdvanceScope::All
            }
            Event::Probed(probe, reached) => {
                self.probed(now, &probe, reached, &mut effects);
                AdvanceScope::Engine(probe.engine)
            }
            Event::Patched(patch, outcome) => {
                self.patched(now, &patch, outcome);
                AdvanceScope::Engine(patch.engine)
            }
        };
        self.advance(now, scope, &mut effects);
        effects
    }

    /// The rows of the table in the documentation of the module from the third one on, except for the memory limit.
    pub(super) fn disposition(&self, name: &str, now: Instant) -> Disposition {
        let Some(known) = self.known.get(name) else {
            return Disposition::UnknownEngine;
        };
        let queue = self.queues.get(name);
        if known.engine.ready && !queue.is_some_and(|queue| queue.envoy_may_lag(now)) {
            return Disposition::Answer(Answer::Route(Route::Ready));
        }
        if known.engine.is_stopped_without_auto_stop() {
            return Disposition::Answer(Answer::Refuse(Refusal::Stopped));
        }
        let Some(queue) = queue else { return Disposition::Hold };
        // An engine that is stopping may lose its pods at any moment, so each request needs a probe of its own.
        if queue.recently_reached(now) && !known.engine.is_stopped() {
            return Disposition::Answer(Answer::Route(Route::Reachable));
        }
        let refused = queue.wake_requests.refused(known.wake_requested, now);
        match refused.filter(|_| known.engine.is_wakeable()) {
            Some(wait) => Disposition::Answer(Answer::Refuse(Refusal::NotAllowed(wait))),
            None => Disposition::Hold,
        }
    }

    /// Requests that the engine be woken, if it is stopped. An engine with pods is not woken: that would keep the
    /// operator from stopping it.
    pub(super) fn demand_wake(&mut self, name: &Arc<str>, now: Instant) {
        if self.known.get(name).is_some_and(|known| known.engine.is_wakeable()) {
            self.queues
                .entry(Arc::clone(name))
                .or_default()
                .wake_requests
                .demand(now);
        }
    }

    pub(super) fn waiter(&self, arrived: Instant, detected: Instant, weight: u64) -> Waiter {
        Waiter {
            arrived,
            detected,
            deadline: arrived + self.settings.hold_timeout,
            weight,
        }
    }

    pub(super) fn hold(&mut self, number: u64, name: &Arc<str>, waiter: Waiter) {
        let engine = self.known.get(name).map(|known| &known.engine);
        let running = engine.is_some_and(|engine| !engine.is_stopped());
        let ready = engine.is_some_and(|engine| engine.ready);
        let queue = self.queues.entry(Arc::clone(name)).or_default();
        queue.observe(running, ready, waiter.detected);
        queue.push(number, waiter);
    }

    pub(super) fn start_list(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let id = self.next_number();
        self.listing.start(id, now);
        effects.push(Effect::List(List { id }));
    }

    pub(super) fn start_probe(&mut self, name: &Arc<str>, now: Instant, effects: &mut Vec<Effect>) {
        let id = self.next_number();
        if let Some(queue) = self.queues.get_mut(name) {
            queue.start_probe(id, now);
            let engine = Arc::clone(name);
            effects.push(Effect::Probe(Probe { engine, id }));
        }
    }

    /// Sets the timer of an engine.
    pub(super) fn schedule(&mut self, name: &Arc<str>) {
        let due = self.queues.get(name).and_then(|queue| self.due(name, queue));
        let queue = self.queues.get_mut(name);
        let before = match queue {
            Some(queue) => std::mem::replace(&mut queue.scheduled, due),
            None => None,
        };
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, Arc::clone(name)));
        }
        if let Some(due) = due {
            self.timers.insert((due, Arc::clone(name)));
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// When a request for an unknown engine is routed because no list has arrived.
pub(super) fn unknown_deadline(waiter: &UnknownWaiter, hold_timeout: Duration, closing: Option<Instant>) -> Instant {
    let deadline = waiter.arrived + hold_timeout.min(listing::TIMEOUT);
    closing.map_or(deadline, |closing| closing.min(deadline))
}

pub(super) fn answer(number: u64, engine: &Arc<str>, answer: Answer) -> Effect {
    let engine = Arc::clone(engine);
    Effect::Answer(WaiterId { number, engine }, answer)
}
