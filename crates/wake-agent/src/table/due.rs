//! Everything that is done because its time has come.
//!
//! It is found by looking at how things are, and not at what has changed, so nothing is missed. But one looks only where
//! something can have changed: a thousand engines may be woken at the same time, and each of them has news many times a
//! second.

use std::sync::Arc;
use std::time::Instant;

use jiff::{Timestamp, Unit};

use super::admit::Verdict;
use super::answer::{Answer, Refusal, Route, Stages};
use super::event::{Effect, List, Now, Patch, Probe};
use super::hold::Hold;
use super::{Stranger, Table, answer, earliest, patience};

/// Where to look.
pub(super) enum Look {
    /// Anything may have changed.
    Everywhere,
    /// Time has passed.
    WhereDue,
    /// One engine has news.
    At(Arc<str>),
}

impl Table {
    /// Does what is due.
    pub(super) fn advance(&mut self, now: Now, mut look: Look, effects: &mut Vec<Effect>) {
        let moment = now.monotonic;
        if let Some(ticket) = self.listing.lost(moment) {
            self.listed(now, ticket, None, effects);
            look = Look::Everywhere;
        }
        let (timeout, closing) = (self.settings.hold_timeout, self.closing);
        let impatient = |stranger: &Stranger| patience(stranger, timeout, closing) <= moment;
        for (number, stranger) in self.strangers.take_while(impatient) {
            effects.push(answer(number, &stranger.name, Answer::Route(Route::Blind)));
        }
        let names: Vec<Arc<str>> = match look {
            Look::Everywhere => self.holds.keys().cloned().collect(),
            Look::WhereDue => {
                let due = self.agenda.iter().take_while(|(due, _)| *due <= moment);
                due.map(|(_, name)| Arc::clone(name)).collect()
            }
            Look::At(name) => vec![name],
        };
        for name in &names {
            self.advance_hold(name, now, effects);
            self.schedule(name);
        }
        if self.listing.begins(moment, self.somebody_waits(), self.list_wanted()) {
            self.begin_list(moment, effects);
        }
    }

    pub(super) fn begin_list(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let ticket = self.next_number();
        self.listing.begin(ticket, now);
        effects.push(Effect::List(List { ticket }));
    }

    /// Notes when to look at an engine again.
    pub(super) fn schedule(&mut self, name: &Arc<str>) {
        let due = self.holds.get(name).and_then(|hold| self.due(name, hold));
        let hold = self.holds.get_mut(name);
        let before = match hold {
            Some(hold) => std::mem::replace(&mut hold.scheduled, due),
            None => None,
        };
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.agenda.remove(&(before, Arc::clone(name)));
        }
        if let Some(due) = due {
            self.agenda.insert((due, Arc::clone(name)));
        }
    }

    /// When something is to be done for an engine.
    pub(super) fn due(&self, name: &Arc<str>, hold: &Hold) -> Option<Instant> {
        let sleeps = self.known.get(name).filter(|known| known.engine.sleeps());
        let patch = sleeps.and_then(|known| hold.stamp.due(known.asked, hold.waiting()));
        earliest(hold.due(self.closing), patch)
    }

    fn advance_hold(&mut self, name: &Arc<str>, now: Now, effects: &mut Vec<Effect>) {
        let moment = now.monotonic;
        self.dismiss(name, moment, effects);
        let closing = self.closing;
        let timeout = self.settings.hold_timeout;
        let Some(hold) = self.holds.get_mut(name) else { return };
        hold.expire_probe(moment);
        let probes = hold.probe_begins(closing, moment);
        hold.stamp.expire(moment);
        let known = self.known.get(name);
        let sleeps = known.is_some_and(|known| known.engine.sleeps());
        let asked = known.and_then(|known| known.asked);
        if !sleeps
            || hold
                .stamp
                .demanded()
                .is_some_and(|demanded| moment >= demanded + timeout)
        {
            hold.stamp.give_up();
        }
        let stamps = sleeps && hold.stamp.begins(asked, hold.waiting(), moment);
        if probes {
            self.begin_probe(name, moment, effects);
        }
        if stamps {
            self.begin_patch(name, now, effects);
        }
        self.forget(name, asked, moment);
    }

    /// Answers those who need not or may not wait any longer.
    fn dismiss(&mut self, name: &Arc<str>, now: Instant, effects: &mut Vec<Effect>) {
        let refusal = match self.verdict(name, now) {
            Verdict::Answer(Answer::Refuse(refusal)) => Some(refusal),
            Verdict::Unknown => Some(Refusal::NotFound),
            // Whether they are let go is for a probe to say.
            Verdict::Answer(Answer::Route(_)) | Verdict::Wait => None,
        };
        let ready = self.known.get(name).is_some_and(|known| known.engine.ready);
        let closing = self.closing.filter(|closing| *closing <= now);
        let at_the_end = |stages: Stages| match closing {
            _ if ready => Answer::Route(Route::Released(stages)),
            Some(_) => Answer::Refuse(Refusal::Closing(stages)),
            None => Answer::Refuse(Refusal::TimedOut(stages)),
        };
        let Some(hold) = self.holds.get_mut(name) else { return };
        if let Some(refusal) = refusal {
            for (number, _) in hold.everybody(now) {
                effects.push(answer(number, name, Answer::Refuse(refusal.clone())));
            }
        }
        for (number, stages) in hold.expired(self.closing, now) {
            effects.push(answer(number, name, at_the_end(stages)));
        }
    }

    pub(super) fn begin_probe(&mut self, name: &Arc<str>, now: Instant, effects: &mut Vec<Effect>) {
        let ticket = self.next_number();
        if let Some(hold) = self.holds.get_mut(name) {
            hold.begin_probe(ticket, now);
            let engine = Arc::clone(name);
            effects.push(Effect::Probe(Probe { engine, ticket }));
        }
    }

    fn begin_patch(&mut self, name: &Arc<str>, now: Now, effects: &mut Vec<Effect>) {
        let ticket = self.next_number();
        if let Some(hold) = self.holds.get_mut(name) {
            hold.stamp.begin(ticket, now.monotonic);
            let engine = Arc::clone(name);
            let at = short(now.wall);
            effects.push(Effect::Patch(Patch { engine, at, ticket }));
        }
    }

    /// Nothing is kept of an engine that nobody asks for.
    fn forget(&mut self, name: &Arc<str>, asked: Option<Instant>, now: Instant) {
        let matters = |hold: &Hold| hold.matters(now) || hold.stamp.matters(asked, now);
        if self.holds.get(name).is_some_and(|hold| !matters(hold))
            && let Some(forgotten) = self.holds.remove(name)
            && let Some(scheduled) = forgotten.scheduled
        {
            self.agenda.remove(&(scheduled, Arc::clone(name)));
        }
    }
}

/// The operator measures from this time how long it took, so whole seconds would be too coarse; more than milliseconds
/// are noise.
fn short(at: Timestamp) -> Timestamp {
    let down = jiff::TimestampRound::new()
        .smallest(Unit::Millisecond)
        .mode(jiff::RoundMode::Trunc);
    at.round(down).unwrap_or(at)
}
