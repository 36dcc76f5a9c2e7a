//! What news of listings, probes and patches change. None of them matter if they come after they were given up.

use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::admit::Verdict;
use super::answer::{Answer, Refusal, Route};
use super::event::{Effect, Now, Patch, PatchOutcome, Probe, WaiterId};
use super::{Engine, Known, Stranger, Table, answer};

/// How far the clock of somebody else may be ahead of ours. The operator takes no notice of stamps beyond that.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

impl Table {
    pub(super) fn left(&mut self, waiter: &WaiterId) {
        self.strangers.leave(waiter.number);
        if let Some(hold) = self.holds.get_mut(&waiter.engine) {
            hold.leave(waiter.number);
        }
    }

    pub(super) fn listed(&mut self, now: Now, ticket: u64, engines: Option<Vec<Engine>>, effects: &mut Vec<Effect>) {
        let Some(began) = self.listing.end(ticket, engines.is_some(), now.monotonic) else {
            return;
        };
        let Some(engines) = engines else {
            // Nobody knows whether there is such an engine: Envoy finds out.
            for (number, stranger) in self.strangers.take() {
                effects.push(answer(number, &stranger.name, Answer::Route(Route::Blind)));
            }
            return;
        };
        let instance = &self.settings.instance;
        let ours = engines.into_iter().filter(|engine| engine.instance == *instance);
        let known = ours.map(|engine| {
            let asked = engine.wake_requested.and_then(|at| by_our_clock(at, now));
            (Arc::from(engine.name.as_str()), Known { engine, asked })
        });
        self.known = known.collect();
        for (name, hold) in &mut self.holds {
            let engine = self.known.get(name).map(|known| &known.engine);
            let ready = engine.is_some_and(|engine| engine.ready);
            let running = engine.is_some_and(|engine| !engine.stopped());
            hold.saw(running, ready, now.monotonic);
        }
        self.introduce_strangers(began, now.monotonic, effects);
    }

    /// Those who came before the listing began are strangers no more: their engine is on the list, or there is none.
    fn introduce_strangers(&mut self, began: Instant, now: Instant, effects: &mut Vec<Effect>) {
        let before = self.strangers.take_while(|stranger| stranger.arrived <= began);
        for (number, Stranger { name, arrived, weight }) in before {
            match self.verdict(&name, now) {
                Verdict::Answer(verdict) => effects.push(answer(number, &name, verdict)),
                Verdict::Unknown => effects.push(answer(number, &name, Answer::Refuse(Refusal::NotFound))),
                Verdict::Wait => {
                    self.ask_for(&name, now);
                    let waiter = self.waiter(arrived, now, weight);
                    self.hold(number, &name, waiter);
                }
            }
        }
    }

    pub(super) fn probed(&mut self, now: Now, probe: &Probe, reached: bool, effects: &mut Vec<Effect>) {
        let Some(hold) = self.holds.get_mut(&probe.engine) else {
            return;
        };
        let current = hold.end_probe(probe.ticket, reached, now.monotonic);
        if current && reached {
            for (number, stages) in hold.everybody(now.monotonic) {
                effects.push(answer(number, &probe.engine, Answer::Route(Route::Released(stages))));
            }
        }
    }

    pub(super) fn patched(&mut self, now: Now, patch: &Patch, outcome: PatchOutcome) {
        let Some(hold) = self.holds.get_mut(&patch.engine) else {
            return;
        };
        match outcome {
            PatchOutcome::Stored => hold.stamp.stored(patch.ticket),
            PatchOutcome::Refused => hold.stamp.not_allowed(patch.ticket, now.monotonic),
            PatchOutcome::Failed => hold.stamp.failed(patch.ticket, now.monotonic),
        }
    }
}

/// When that was by the clock that deadlines are kept by. None if it was before that clock began, or if it is still to
/// come by more than clocks differ.
fn by_our_clock(at: Timestamp, now: Now) -> Option<Instant> {
    let age = now.wall.duration_since(at);
    if age < -CLOCK_SKEW {
        return None;
    }
    now.monotonic.checked_sub(age.max(SignedDuration::ZERO).unsigned_abs())
}
