//! When an engine is asked for: the wake annotation of one engine.
//!
//! An annotation that somebody else has set counts as if we had set it, so that many gateways write little more than one.

use std::time::{Duration, Instant};

use super::latest;

/// An annotation younger than this answers for a new request too.
pub const EVERY: Duration = Duration::from_secs(10);
/// How often it is renewed while requests wait and none comes. It is honoured for five minutes.
const RENEWED: Duration = Duration::from_mins(1);
/// A patch that takes longer has failed.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after the first failure; each further one doubles it.
const BACKOFF: Duration = Duration::from_millis(500);

/// What was done to wake one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    /// The patch under way, and when it began.
    under_way: Option<(u64, Instant)>,
    /// When the last patch began.
    began: Option<Instant>,
    /// When the last patch that was stored began.
    stored: Option<Instant>,
    /// When the last request came. It need not wait here.
    demand: Option<Instant>,
    /// How many patches in a row have failed.
    failures: u32,
    /// When the next patch may be tried, after a failure.
    retry: Option<Instant>,
    /// Until when it is taken for granted that patches are refused.
    refused: Option<Instant>,
}

impl Stamp {
    /// A request for the stopped engine came.
    pub fn demand(&mut self, now: Instant) {
        self.demand = Some(now);
    }

    /// How long we will not try, since we are not allowed to. None if we do try, or if somebody else has just asked.
    pub fn refused(&self, seen: Option<Instant>, now: Instant) -> Option<Duration> {
        let asked = seen.is_some_and(|seen| now < seen + EVERY);
        let refused = self.refused.filter(|until| !asked && *until > now)?;
        Some(refused.saturating_duration_since(now))
    }

    /// When the next patch is due, if none is under way. `seen` is when somebody asked according to the annotation;
    /// `waiting` is since when requests wait.
    fn next(&self, seen: Option<Instant>, waiting: Option<Instant>) -> Option<Instant> {
        let asked = latest(self.stored, seen);
        let renewal = waiting.map(|since| asked.map_or(since, |asked| asked + RENEWED));
        let due = self.unmet(seen).or(renewal)?;
        Some(self.retry.map_or(due, |retry| due.max(retry)))
    }

    /// The last request, if no annotation was young enough to answer for it.
    fn unmet(&self, seen: Option<Instant>) -> Option<Instant> {
        let asked = latest(self.stored, seen);
        self.demand
            .filter(|demand| asked.is_none_or(|asked| asked + EVERY <= *demand))
    }

    /// When something is to be done: the next patch, or giving up the one under way.
    pub fn due(&self, seen: Option<Instant>, waiting: Option<Instant>) -> Option<Instant> {
        match self.under_way {
            Some((_, began)) => Some(began + TIMEOUT),
            None => self.next(seen, waiting),
        }
    }

    /// Whether there is a patch to begin now.
    pub fn begins(&self, seen: Option<Instant>, waiting: Option<Instant>, now: Instant) -> bool {
        self.under_way.is_none() && self.next(seen, waiting).is_some_and(|due| due <= now)
    }

    pub fn begin(&mut self, ticket: u64, now: Instant) {
        self.under_way = Some((ticket, now));
        self.began = Some(now);
    }

    /// Gives up a patch that takes too long.
    pub fn expire(&mut self, now: Instant) {
        if let Some((ticket, _)) = self.under_way.filter(|(_, began)| now >= *began + TIMEOUT) {
            self.failed(ticket, now);
        }
    }

    pub fn stored(&mut self, ticket: u64) {
        if let Some(began) = self.end(ticket) {
            self.stored = Some(began);
            self.failures = 0;
            self.retry = None;
            self.refused = None;
        }
    }

    pub fn failed(&mut self, ticket: u64, now: Instant) {
        if self.end(ticket).is_some() {
            let wait = BACKOFF.saturating_mul(1 << self.failures.min(8)).min(EVERY);
            self.failures += 1;
            self.retry = Some(now + wait);
        }
    }

    /// We are not allowed to. It is tried again for a request that comes later.
    pub fn not_allowed(&mut self, ticket: u64, now: Instant) {
        if self.end(ticket).is_some() {
            self.demand = None;
            self.refused = Some(now + EVERY);
            self.retry = Some(now + EVERY);
        }
    }

    fn end(&mut self, ticket: u64) -> Option<Instant> {
        let (_, began) = self.under_way.take_if(|(under_way, _)| *under_way == ticket)?;
        Some(began)
    }

    /// Requests that no annotation answers for are given up: the engine runs or is gone, or they would not wait so long.
    pub fn give_up(&mut self) {
        self.demand = None;
    }

    /// When the last request came.
    pub fn demanded(&self) -> Option<Instant> {
        self.demand
    }

    /// Whether any of this still matters if no request comes.
    pub fn matters(&self, seen: Option<Instant>, now: Instant) -> bool {
        let later = |moment: Option<Instant>| moment.is_some_and(|moment| moment > now);
        self.under_way.is_some()
            || self.unmet(seen).is_some()
            || later(self.began.map(|began| began + EVERY))
            || later(self.retry)
            || later(self.refused)
    }
}
