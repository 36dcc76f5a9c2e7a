//! The requests that are held for one engine, and the probes that release them.

use std::time::{Duration, Instant};

use super::answer::Stages;
use super::time::earliest;
use super::wake_request::WakeRequests;
use super::weighted_queue::{Weighted, WeightedQueue};

/// The minimum time between the starts of two probes. An engine that reports that it is ready is probed this often: all
/// that is missing is that Envoy notices.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// How often any other engine is probed, in case its status lags.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time after which a probe has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// A request is refused at its deadline only if a probe started within this time before it.
pub const FINAL_PROBE: Duration = Duration::from_millis(250);
/// How long new requests are routed after a probe reached the engine. In the second half of this time they start
/// another probe, so that a steady stream of requests is never held.
const REACHABLE: Duration = Duration::from_secs(1);
/// How long Envoy may take to notice that an engine is ready. It checks once a second.
const ENVOY_LAG: Duration = Duration::from_secs(5);

/// A held request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub arrived: Instant,
    pub detected: Instant,
    pub deadline: Instant,
    pub weight: u64,
}

impl Weighted for Waiter {
    fn weight(&self) -> u64 {
        self.weight
    }
}

/// What is known of, and in progress for, one engine that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EngineQueue {
    /// By arrival, which is by deadline.
    waiters: WeightedQueue<Waiter>,
    /// The probe in flight, and when it started. The result of any other probe is stale.
    probe: Option<(u64, Instant)>,
    /// When the last probe started.
    probed: Option<Instant>,
    /// When the last probe reached the engine, if it did.
    reached: Option<Instant>,
    /// Since when `spec.replicas` has been above zero.
    scaled: Option<Instant>,
    /// Since when the engine has reported that it is ready.
    ready: Option<Instant>,
    pub(crate) wake_requests: WakeRequests,
    /// When the queue is due, as in the timers of the state.
    pub scheduled: Option<Instant>,
}

impl EngineQueue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The memory that the held requests occupy.
    pub(super) fn weight(&self) -> u64 {
        self.waiters.weight()
    }

    pub(super) fn push(&mut self, number: u64, waiter: Waiter) {
        self.waiters.push(number, waiter);
    }

    /// Since when a request has been held.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiters.first().map(|waiter| waiter.arrived)
    }

    /// A client has disconnected.
    pub(super) fn remove(&mut self, number: u64) {
        if self.waiters.remove(number).is_some() {
            self.cancel_probe_if_empty();
        }
    }

    /// A probe does not count for requests that arrive after all those have left for which it was started.
    fn cancel_probe_if_empty(&mut self) {
        if self.waiters.is_empty() {
            self.probe = None;
        }
    }

    /// The engine was listed: whether it has replicas, and whether it reports that it is ready.
    pub(super) fn observe(&mut self, running: bool, ready: bool, now: Instant) {
        self.scaled = running.then(|| self.scaled.unwrap_or(now));
        self.ready = ready.then(|| self.ready.unwrap_or(now));
    }

    /// Whether Envoy may not have noticed yet that the engine is ready: requests are still held for that.
    pub(super) fn envoy_may_lag(&self, now: Instant) -> bool {
        !self.waiters.is_empty() && self.ready.is_none_or(|ready| now < ready + ENVOY_LAG)
    }

    /// Whether a request that arrives now need not be held.
    pub(super) fn recently_reached(&self, now: Instant) -> bool {
        self.reached.is_some_and(|reached| now < reached + REACHABLE)
    }

    /// Whether another probe is needed, so that requests need not be held.
    pub(super) fn needs_confirmation(&self, now: Instant) -> bool {
        self.probe.is_none() && self.reached.is_some_and(|reached| now >= reached + REACHABLE / 2)
    }

    /// When something has to be done: the next probe, the timeout of the one in flight, or a deadline.
    pub(super) fn due(&self, closing: Option<Instant>) -> Option<Instant> {
        let first = self.waiters.first().map(|waiter| deadline(waiter, closing));
        let probe = match self.probe {
            Some((_, started)) => Some(started + TIMEOUT),
            None => self.next_probe(closing),
        };
        earliest(first, probe)
    }

    fn next_probe(&self, closing: Option<Instant>) -> Option<Instant> {
        let since = self.waiting_since()?;
        let Some(probed) = self.probed else {
            return Some(since);
        };
        let soonest = probed + MIN_INTERVAL;
        let regular = if self.ready.is_some() {
            soonest
        } else {
            probed + INTERVAL
        };
        let mut deadlines = self.waiters.values().map(|waiter| deadline(waiter, closing));
        let uncovered = deadlines.find(|deadline| *deadline > probed + FINAL_PROBE);
        let final_probe = uncovered.and_then(|deadline| deadline.checked_sub(FINAL_PROBE));
        earliest(Some(regular), final_probe.map(|final_probe| final_probe.max(soonest)))
    }

    /// Whether a probe has to start now.
    pub(super) fn probe_starts(&self, closing: Option<Instant>, now: Instant) -> bool {
        self.probe.is_none() && self.next_probe(closing).is_some_and(|due| due <= now)
    }

    pub(super) fn start_probe(&mut self, id: u64, now: Instant) {
        self.probe = Some((id, now));
        self.probed = Some(now);
    }

    /// A probe has ended. Returns whether it was the one in flight.
    pub(super) fn end_probe(&mut self, id: u64, reached: bool, now: Instant) -> bool {
        let current = self.probe.take_if(|(in_flight, _)| *in_flight == id).is_some();
        if current {
            self.reached = reached.then_some(now);
        }
        current
    }

    /// Ends a probe that has timed out.
    pub(super) fn expire_probe(&mut self, now: Instant) {
        if let Some((id, _)) = self.probe.filter(|(_, started)| now >= *started + TIMEOUT) {
            self.end_probe(id, false, now);
        }
    }

    /// Removes the requests whose deadline has passed.
    pub(super) fn expired(&mut self, closing: Option<Instant>, now: Instant) -> Vec<(u64, Stages)> {
        let taken = self.waiters.take_while(|waiter| deadline(waiter, closing) <= now);
        if !taken.is_empty() {
            self.cancel_probe_if_empty();
        }
        let stages = |(number, waiter)| (number, self.stages(&waiter, now));
        taken.into_iter().map(stages).collect()
    }

    /// Removes all requests.
    pub(super) fn drain(&mut self, now: Instant) -> Vec<(u64, Stages)> {
        self.probe = None;
        let waiters = self.waiters.take();
        let stages = |(number, waiter)| (number, self.stages(&waiter, now));
        waiters.map(stages).collect()
    }

    fn stages(&self, waiter: &Waiter, now: Instant) -> Stages {
        let since = |moment: Instant| moment.saturating_duration_since(waiter.arrived);
        Stages {
            detected: since(waiter.detected),
            scaled: self.scaled.map(since),
            ready: self.ready.map(since),
            released: since(now),
        }
    }

    /// Whether anything in here still matters if no request arrives.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        let just_probed = self.probed.is_some_and(|probed| now < probed + MIN_INTERVAL);
        !self.waiters.is_empty() || self.probe.is_some() || self.recently_reached(now) || just_probed
    }
}

fn deadline(waiter: &Waiter, closing: Option<Instant>) -> Instant {
    closing.map_or(waiter.deadline, |closing| closing.min(waiter.deadline))
}
