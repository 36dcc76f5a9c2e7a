//! What happens to a request when it arrives.

use std::sync::Arc;
use std::time::Instant;

use super::answer::{Answer, Refusal, Route};
use super::engine;
use super::event::{Arrival, Effect, Now, WaiterId};
use super::state::{AdvanceScope, Disposition, HoldState, UnknownWaiter};
use super::weighted_queue::weight;

impl HoldState {
    pub(super) fn admit(&mut self, now: Now, name: &str, bytes: u64, effects: &mut Vec<Effect>) -> Arrival {
        if !engine::is_name(name) {
            return Arrival::Answered(Answer::Refuse(Refusal::Malformed));
        }
        if self.listing.needs_refresh(now.monotonic) {
            self.start_list(now.monotonic, effects);
        }
        if !self.listing.is_fresh(now.monotonic) {
            return Arrival::Answered(Answer::Route(Route::FailOpen));
        }
        match self.disposition(name, now.monotonic) {
            Disposition::Answer(Answer::Route(Route::Reachable)) => {
                self.confirm_reachable(name, now.monotonic, effects);
                Arrival::Answered(Answer::Route(Route::Reachable))
            }
            Disposition::Answer(answer) => Arrival::Answered(answer),
            Disposition::UnknownEngine => self.hold_for_list(now, name.into(), weight(bytes), effects),
            Disposition::Hold => self.hold_for_engine(now, name.into(), weight(bytes), effects),
        }
    }

    /// An unknown engine: only a list that is newer than the request can tell that it does not exist.
    fn hold_for_list(&mut self, now: Now, name: Arc<str>, weight: u64, effects: &mut Vec<Effect>) -> Arrival {
        // One request may always be held. Otherwise, with little memory, no client would ever get a 404.
        let room = self.unknown.weight() == 0 || self.unknown.weight() + weight <= self.settings.memory / 4;
        if !room || !self.fits(weight) {
            return Arrival::Answered(Answer::Refuse(Refusal::Full));
        }
        let number = self.next_number();
        let waiter = UnknownWaiter {
            name: Arc::clone(&name),
            arrived: now.monotonic,
            weight,
        };
        self.unknown.push(number, waiter);
        self.advance(now, AdvanceScope::Due, effects);
        Arrival::Waits(WaiterId { number, engine: name })
    }

    fn hold_for_engine(&mut self, now: Now, name: Arc<str>, weight: u64, effects: &mut Vec<Effect>) -> Arrival {
        // Before the memory limit is checked: a client that is refused retries, and should find the engine awake.
        self.demand_wake(&name, now.monotonic);
        let arrival = if self.fits(weight) {
            let number = self.next_number();
            let waiter = self.waiter(now.monotonic, now.monotonic, weight);
            self.hold(number, &name, waiter);
            let engine = Arc::clone(&name);
            Arrival::Waits(WaiterId { number, engine })
        } else {
            Arrival::Answered(Answer::Refuse(Refusal::Full))
        };
        self.advance(now, AdvanceScope::Engine(name), effects);
        arrival
    }

    /// Whether one more request fits within the memory limit.
    fn fits(&self, weight: u64) -> bool {
        self.occupied_bytes() + weight <= self.settings.memory
    }

    /// Requests are routed because of an earlier probe: another probe keeps it that way.
    fn confirm_reachable(&mut self, name: &str, now: Instant, effects: &mut Vec<Effect>) {
        if self.queues.get(name).is_some_and(|queue| queue.needs_confirmation(now)) {
            let name = name.into();
            self.start_probe(&name, now, effects);
            self.schedule(&name);
        }
    }
}
