//! The wake requests for one engine: when to write its wake annotation.
//!
//! An annotation that another gateway has written counts as if we had written it, so that many gateways write hardly
//! more often than one.

use std::time::{Duration, Instant};

use super::time::latest;

/// A new request needs no new annotation if the present one is younger than this.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often the annotation is renewed while requests are held and none arrives. The operator honours it for five
/// minutes.
const RENEWAL: Duration = Duration::from_mins(1);
/// The time after which a patch has failed.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the first failure. Each further failure doubles it.
const BACKOFF: Duration = Duration::from_millis(500);

/// The wake requests for one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WakeRequests {
    /// The patch in flight, and when it started.
    in_flight: Option<(u64, Instant)>,
    /// When the last patch started.
    started: Option<Instant>,
    /// When the last patch that was stored started.
    stored: Option<Instant>,
    /// When the last request arrived. It may have been refused since.
    demand: Option<Instant>,
    /// The number of patches that failed in a row.
    failures: u32,
    /// When the next patch may start, after a failure.
    retry: Option<Instant>,
    /// Until when patches are assumed to be refused.
    refused: Option<Instant>,
}

impl WakeRequests {
    /// A request for the stopped engine arrived.
    pub(super) fn demand(&mut self, now: Instant) {
        self.demand = Some(now);
    }

    /// How long no patch is tried, because the gateway is not allowed to. None if patches are tried, or if another
    /// client has just written the annotation (`annotated`).
    pub(super) fn refused(&self, annotated: Option<Instant>, now: Instant) -> Option<Duration> {
        let recent = annotated.is_some_and(|annotated| now < annotated + INTERVAL);
        let refused = self.refused.filter(|until| !recent && *until > now)?;
        Some(refused.saturating_duration_since(now))
    }

    /// When the next patch is due, if none is in flight. `annotated` is the time in the annotation; `waiting_since` is
    /// when the first held request arrived.
    fn next(&self, annotated: Option<Instant>, waiting_since: Option<Instant>) -> Option<Instant> {
        let last = latest(self.stored, annotated);
        let renewal = waiting_since.map(|since| last.map_or(since, |last| last + RENEWAL));
        let due = self.unmet(annotated).or(renewal)?;
        Some(self.retry.map_or(due, |retry| due.max(retry)))
    }

    /// The last request, if no annotation was young enough for it.
    fn unmet(&self, annotated: Option<Instant>) -> Option<Instant> {
        let last = latest(self.stored, annotated);
        self.demand
            .filter(|demand| last.is_none_or(|last| last + INTERVAL <= *demand))
    }

    /// When something has to be done: the next patch, or the timeout of the one in flight.
    pub(super) fn due(&self, annotated: Option<Instant>, waiting_since: Option<Instant>) -> Option<Instant> {
        match self.in_flight {
            Some((_, started)) => Some(started + TIMEOUT),
            None => self.next(annotated, waiting_since),
        }
    }

    /// Whether a patch has to start now.
    pub(super) fn starts(&self, annotated: Option<Instant>, waiting_since: Option<Instant>, now: Instant) -> bool {
        self.in_flight.is_none() && self.next(annotated, waiting_since).is_some_and(|due| due <= now)
    }

    pub(super) fn start(&mut self, id: u64, now: Instant) {
        self.in_flight = Some((id, now));
        self.started = Some(now);
    }

    /// Ends a patch that has timed out.
    pub(super) fn expire(&mut self, now: Instant) {
        if let Some((id, _)) = self.in_flight.filter(|(_, started)| now >= *started + TIMEOUT) {
            self.failed(id, now);
        }
    }

    pub(super) fn stored(&mut self, id: u64) {
        if let Some(started) = self.end(id) {
            self.stored = Some(started);
            self.failures = 0;
            self.retry = None;
            self.refused = None;
        }
    }

    pub(super) fn failed(&mut self, id: u64, now: Instant) {
        if self.end(id).is_some() {
            let wait = BACKOFF.saturating_mul(1 << self.failures.min(8)).min(INTERVAL);
            self.failures += 1;
            self.retry = Some(now + wait);
        }
    }

    /// The gateway is not allowed to wake the engine. The next patch is tried for a request that arrives later.
    pub(super) fn not_allowed(&mut self, id: u64, now: Instant) {
        if self.end(id).is_some() {
            self.demand = None;
            self.refused = Some(now + INTERVAL);
            self.retry = Some(now + INTERVAL);
        }
    }

    fn end(&mut self, id: u64) -> Option<Instant> {
        let (_, started) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id)?;
        Some(started)
    }

    /// The last request no longer counts: the engine has replicas or is gone, or the request would have timed out.
    pub(super) fn drop_demand(&mut self) {
        self.demand = None;
    }

    /// When the last request arrived.
    pub(super) fn demanded(&self) -> Option<Instant> {
        self.demand
    }

    /// Whether anything in here still matters if no request arrives.
    pub(super) fn is_in_use(&self, annotated: Option<Instant>, now: Instant) -> bool {
        let later = |moment: Option<Instant>| moment.is_some_and(|moment| moment > now);
        self.in_flight.is_some()
            || self.unmet(annotated).is_some()
            || later(self.started.map(|started| started + INTERVAL))
            || later(self.retry)
            || later(self.refused)
    }
}
