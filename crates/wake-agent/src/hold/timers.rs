//! Everything that is done because its time has come.
//!
//! What is due follows from the present state, not from what has changed, so nothing is missed. Only engines that an
//! event may affect are examined: a thousand engines may be starting at the same time, each with several events a
//! second.

use std::sync::Arc;
use std::time::Instant;

use jiff::{Timestamp, Unit};

use super::answer::{Answer, Refusal, Route, Stages};
use super::engine_queue::EngineQueue;
use super::event::{Effect, Now, Patch};
use super::state::{AdvanceScope, Disposition, HoldState, UnknownWaiter, answer, unknown_deadline};

impl HoldState {
    /// Does what is due.
    pub(super) fn advance(&mut self, now: Now, mut scope: AdvanceScope, effects: &mut Vec<Effect>) {
        let moment = now.monotonic;
        if let Some(id) = self.listing.timed_out(moment) {
            self.listed(now, id, None, effects);
            scope = AdvanceScope::All;
        }
        let (timeout, closing) = (self.settings.hold_timeout, self.closing);
        let expired = |waiter: &UnknownWaiter| unknown_deadline(waiter, timeout, closing) <= moment;
        for (number, waiter) in self.unknown.take_while(expired) {
            effects.push(answer(number, &waiter.name, Answer::Route(Route::FailOpen)));
        }
        let names: Vec<Arc<str>> = match scope {
            AdvanceScope::All => self.queues.keys().cloned().collect(),
            AdvanceScope::Due => {
                let due = self.timers.iter().take_while(|(due, _)| *due <= moment);
                due.map(|(_, name)| Arc::clone(name)).collect()
            }
            AdvanceScope::Engine(name) => vec![name],
        };
        for name in &names {
            self.advance_engine(name, now, effects);
            self.schedule(name);
        }
        if self.listing.starts(moment, self.is_holding(), self.list_requested_at()) {
            self.start_list(moment, effects);
        }
    }

    fn advance_engine(&mut self, name: &Arc<str>, now: Now, effects: &mut Vec<Effect>) {
        let moment = now.monotonic;
        self.refuse_or_expire(name, moment, effects);
        let closing = self.closing;
        let timeout = self.settings.hold_timeout;
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        queue.expire_probe(moment);
        let probes = queue.probe_starts(closing, moment);
        queue.wake_requests.expire(moment);
        let known = self.known.get(name);
        let wakeable = known.is_some_and(|known| known.engine.is_wakeable());
        let annotated = known.and_then(|known| known.wake_requested);
        let demanded = queue.wake_requests.demanded();
        if !wakeable || demanded.is_some_and(|demanded| moment >= demanded + timeout) {
            queue.wake_requests.drop_demand();
        }
        let patches = wakeable && queue.wake_requests.starts(annotated, queue.waiting_since(), moment);
        if probes {
            self.start_probe(name, moment, effects);
        }
        if patches {
            self.start_patch(name, now, effects);
        }
        self.forget_if_unused(name, annotated, moment);
    }

    /// Answers the held requests that have to be refused, and those whose deadline has passed.
    fn refuse_or_expire(&mut self, name: &Arc<str>, now: Instant, effects: &mut Vec<Effect>) {
        let refusal = match self.disposition(name, now) {
            Disposition::Answer(Answer::Refuse(refusal)) => Some(refusal),
            Disposition::UnknownEngine => Some(Refusal::NotFound),
            // Only a probe releases them.
            Disposition::Answer(Answer::Route(_)) | Disposition::Hold => None,
        };
        let ready = self.known.get(name).is_some_and(|known| known.engine.ready);
        let closing = self.closing.filter(|closing| *closing <= now);
        let at_deadline = |stages: Stages| match closing {
            _ if ready => Answer::Route(Route::Released(stages)),
            Some(_) => Answer::Refuse(Refusal::Closing(stages)),
            None => Answer::Refuse(Refusal::TimedOut(stages)),
        };
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        if let Some(refusal) = refusal {
            for (number, _) in queue.drain(now) {
                effects.push(answer(number, name, Answer::Refuse(refusal.clone())));
            }
        }
        for (number, stages) in queue.expired(self.closing, now) {
            effects.push(answer(number, name, at_deadline(stages)));
        }
    }

    fn start_patch(&mut self, name: &Arc<str>, now: Now, effects: &mut Vec<Effect>) {
        let id = self.next_number();
        if let Some(queue) = self.queues.get_mut(name) {
            queue.wake_requests.start(id, now.monotonic);
            let engine = Arc::clone(name);
            let at = to_milliseconds(now.wall);
            effects.push(Effect::Patch(Patch { engine, at, id }));
        }
    }

    /// Drops the queue of an engine for which nothing is left to do.
    fn forget_if_unused(&mut self, name: &Arc<str>, annotated: Option<Instant>, now: Instant) {
        let in_use = |queue: &EngineQueue| queue.is_in_use(now) || queue.wake_requests.is_in_use(annotated, now);
        if self.queues.get(name).is_some_and(|queue| !in_use(queue))
            && let Some(forgotten) = self.queues.remove(name)
            && let Some(scheduled) = forgotten.scheduled
        {
            self.timers.remove(&(scheduled, Arc::clone(name)));
        }
    }
}

/// The operator measures the latency of a wake from this time, so whole seconds would be too coarse.
fn to_milliseconds(at: Timestamp) -> Timestamp {
    let down = jiff::TimestampRound::new()
        .smallest(Unit::Millisecond)
        .mode(jiff::RoundMode::Trunc);
    at.round(down).unwrap_or(at)
}
