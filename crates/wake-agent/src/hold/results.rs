//! The results of listings, probes and patches. A result that arrives after its timeout is ignored.

use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Refusal, Route};
use super::engine::Engine;
use super::event::{Effect, Now, Patch, PatchOutcome, Probe, WaiterId};
use super::state::{Disposition, HoldState, KnownEngine, UnknownWaiter, answer};

/// How far the clock of another client may be ahead. The operator ignores wake requests beyond that.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

impl HoldState {
    pub(super) fn left(&mut self, waiter: &WaiterId) {
        self.unknown.remove(waiter.number);
        if let Some(queue) = self.queues.get_mut(&waiter.engine) {
            queue.remove(waiter.number);
        }
    }

    pub(super) fn listed(&mut self, now: Now, id: u64, engines: Option<Vec<Engine>>, effects: &mut Vec<Effect>) {
        let Some(started) = self.listing.end(id, engines.is_some(), now.monotonic) else {
            return;
        };
        let Some(engines) = engines else {
            // Whether the engine exists is not known: Envoy finds out.
            for (number, waiter) in self.unknown.take() {
                effects.push(answer(number, &waiter.name, Answer::Route(Route::FailOpen)));
            }
            return;
        };
        let instance = &self.settings.instance;
        let ours = engines.into_iter().filter(|engine| engine.instance == *instance);
        let known = ours.map(|engine| {
            let wake_requested = engine.wake_requested.and_then(|at| monotonic_time(at, now));
            let name = Arc::from(engine.name.as_str());
            (name, KnownEngine { engine, wake_requested })
        });
        self.known = known.collect();
        for (name, queue) in &mut self.queues {
            let engine = self.known.get(name).map(|known| &known.engine);
            let ready = engine.is_some_and(|engine| engine.ready);
            let running = engine.is_some_and(|engine| !engine.is_stopped());
            queue.observe(running, ready, now.monotonic);
        }
        self.resolve_unknown(started, now.monotonic, effects);
    }

    /// Requests that arrived before the listing started: either their engine is in the list, or it does not exist.
    fn resolve_unknown(&mut self, started: Instant, now: Instant, effects: &mut Vec<Effect>) {
        let before = self.unknown.take_while(|waiter| waiter.arrived <= started);
        for (number, UnknownWaiter { name, arrived, weight }) in before {
            match self.disposition(&name, now) {
                Disposition::Answer(decided) => effects.push(answer(number, &name, decided)),
                Disposition::UnknownEngine => effects.push(answer(number, &name, Answer::Refuse(Refusal::NotFound))),
                Disposition::Hold => {
                    self.demand_wake(&name, now);
                    let waiter = self.waiter(arrived, now, weight);
                    self.hold(number, &name, waiter);
                }
            }
        }
    }

    pub(super) fn probed(&mut self, now: Now, probe: &Probe, reached: bool, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(&probe.engine) else {
            return;
        };
        let current = queue.end_probe(probe.id, reached, now.monotonic);
        if current && reached {
            for (number, stages) in queue.drain(now.monotonic) {
                effects.push(answer(number, &probe.engine, Answer::Route(Route::Released(stages))));
            }
        }
    }

    pub(super) fn patched(&mut self, now: Now, patch: &Patch, outcome: PatchOutcome) {
        let Some(queue) = self.queues.get_mut(&patch.engine) else {
            return;
        };
        match outcome {
            PatchOutcome::Stored => queue.wake_requests.stored(patch.id),
            PatchOutcome::Refused => queue.wake_requests.not_allowed(patch.id, now.monotonic),
            PatchOutcome::Failed => queue.wake_requests.failed(patch.id, now.monotonic),
        }
    }
}

/// The time of an annotation on the clock that deadlines use. None if it was before that clock started, or if it is in
/// the future by more than clocks differ.
fn monotonic_time(at: Timestamp, now: Now) -> Option<Instant> {
    let age = now.wall.duration_since(at);
    if age < -CLOCK_SKEW {
        return None;
    }
    now.monotonic.checked_sub(age.max(SignedDuration::ZERO).unsigned_abs())
}
