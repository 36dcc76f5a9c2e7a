//! What a request gets when it comes.

use std::sync::Arc;
use std::time::Instant;

use super::answer::{Answer, Refusal, Route};
use super::due::Look;
use super::event::{Arrival, Effect, Now, WaiterId};
use super::hold::Waiter;
use super::queue::weight;
use super::{Stranger, Table, engine};

/// What is to be done with a request.
pub(super) enum Verdict {
    Answer(Answer),
    /// The name is on no list.
    Unknown,
    Wait,
}

impl Table {
    pub(super) fn admit(&mut self, now: Now, name: &str, bytes: u64, effects: &mut Vec<Effect>) -> Arrival {
        if !engine::is_name(name) {
            return Arrival::Answered(Answer::Refuse(Refusal::Malformed));
        }
        if self.listing.wears_off(now.monotonic) {
            self.begin_list(now.monotonic, effects);
        }
        if !self.listing.believed(now.monotonic) {
            return Arrival::Answered(Answer::Route(Route::Blind));
        }
        match self.verdict(name, now.monotonic) {
            Verdict::Answer(Answer::Route(Route::Reachable)) => {
                self.confirm(name, now.monotonic, effects);
                Arrival::Answered(Answer::Route(Route::Reachable))
            }
            Verdict::Answer(answer) => Arrival::Answered(answer),
            Verdict::Unknown => self.wait_for_a_list(now, name.into(), weight(bytes), effects),
            Verdict::Wait => self.wait_for_the_engine(now, name.into(), weight(bytes), effects),
        }
    }

    /// What the table in the documentation of the module says, from its third line on, but for the room.
    pub(super) fn verdict(&self, name: &str, now: Instant) -> Verdict {
        let Some(known) = self.known.get(name) else {
            return Verdict::Unknown;
        };
        let hold = self.holds.get(name);
        if known.engine.ready && !hold.is_some_and(|hold| hold.catches_up(now)) {
            return Verdict::Answer(Answer::Route(Route::Ready));
        }
        if known.engine.stopped_for_good() {
            return Verdict::Answer(Answer::Refuse(Refusal::Stopped));
        }
        let Some(hold) = hold else { return Verdict::Wait };
        // One that is being stopped may lose its pods at any moment: only a look of one's own is good enough.
        if hold.passes(now) && !known.engine.stopped() {
            return Verdict::Answer(Answer::Route(Route::Reachable));
        }
        let refused = hold.stamp.refused(known.asked, now);
        match refused.filter(|_| known.engine.sleeps()) {
            Some(wait) => Verdict::Answer(Answer::Refuse(Refusal::NotAllowed(wait))),
            None => Verdict::Wait,
        }
    }

    /// A name on no list: only a list that is newer than the request says that there is no such engine.
    fn wait_for_a_list(&mut self, now: Now, name: Arc<str>, weight: u64, effects: &mut Vec<Effect>) -> Arrival {
        // One may always wait, or with little memory nobody would ever be told that there is no such engine.
        let room = self.strangers.weight() == 0 || self.strangers.weight() + weight <= self.settings.memory / 4;
        if !room || !self.fits(weight) {
            return Arrival::Answered(Answer::Refuse(Refusal::Full));
        }
        let number = self.next_number();
        let stranger = Stranger {
            name: Arc::clone(&name),
            arrived: now.monotonic,
            weight,
        };
        self.strangers.join(number, stranger);
        self.advance(now, Look::WhereDue, effects);
        Arrival::Waits(WaiterId { number, engine: name })
    }

    fn wait_for_the_engine(&mut self, now: Now, name: Arc<str>, weight: u64, effects: &mut Vec<Effect>) -> Arrival {
        // Before the room is looked at: who is sent away for now comes back, and should find the engine awake.
        self.ask_for(&name, now.monotonic);
        let arrival = if self.fits(weight) {
            let number = self.next_number();
            let waiter = self.waiter(now.monotonic, now.monotonic, weight);
            self.hold(number, &name, waiter);
            let engine = Arc::clone(&name);
            Arrival::Waits(WaiterId { number, engine })
        } else {
            Arrival::Answered(Answer::Refuse(Refusal::Full))
        };
        self.advance(now, Look::At(name), effects);
        arrival
    }

    /// A request wants this engine. One that has pods coming is not asked for: the operator would keep it from stopping.
    pub(super) fn ask_for(&mut self, name: &Arc<str>, now: Instant) {
        if self.known.get(name).is_some_and(|known| known.engine.sleeps()) {
            self.holds.entry(Arc::clone(name)).or_default().stamp.demand(now);
        }
    }

    /// Whether there is room for one more request.
    fn fits(&self, weight: u64) -> bool {
        self.waiting_bytes() + weight <= self.settings.memory
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
        let running = engine.is_some_and(|engine| !engine.stopped());
        let ready = engine.is_some_and(|engine| engine.ready);
        let hold = self.holds.entry(Arc::clone(name)).or_default();
        hold.saw(running, ready, waiter.detected);
        hold.join(number, waiter);
    }

    /// Requests pass because of a probe that was some time ago: another one keeps them passing.
    fn confirm(&mut self, name: &str, now: Instant, effects: &mut Vec<Effect>) {
        if self.holds.get(name).is_some_and(|hold| hold.wears_off(now)) {
            let name = name.into();
            self.begin_probe(&name, now, effects);
            self.schedule(&name);
        }
    }
}
