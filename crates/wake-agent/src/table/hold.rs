//! The requests that wait for one engine, and the probes that let them go.

use std::time::{Duration, Instant};

use super::answer::Stages;
use super::earliest;
use super::queue::{Queue, Weighs};
use super::stamp::Stamp;

/// How soon after one probe the next may begin. So it is done for an engine that calls itself ready: what is missing is
/// that Envoy notices.
const GAP: Duration = Duration::from_millis(100);
/// How often any other engine is probed, in case that we do not hear of it.
const EVERY: Duration = Duration::from_millis(500);
/// A probe that takes longer has failed.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// Nobody is sent away unless a probe began at most this long before.
pub const LAST_LOOK: Duration = Duration::from_millis(250);
/// For how long a probe that reached the engine lets new requests pass. In the second half of it they ask for another
/// one, so that a steady stream never waits.
const RECENT: Duration = Duration::from_secs(1);

/// How long Envoy may take to notice an engine that calls itself ready. It looks every second.
const CATCHES_UP: Duration = Duration::from_secs(5);

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub arrived: Instant,
    pub detected: Instant,
    pub deadline: Instant,
    pub weight: u64,
}

impl Weighs for Waiter {
    fn weight(&self) -> u64 {
        self.weight
    }
}

/// What is going on for one engine that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    /// By arrival, which is by deadline.
    waiters: Queue<Waiter>,
    /// The probe under way, and when it began. The news of any other are old news.
    probe: Option<(u64, Instant)>,
    /// When the last probe began.
    probed: Option<Instant>,
    /// When a probe reached the engine, if the last one did.
    reached: Option<Instant>,
    /// Since when the engine asks for pods.
    scaled: Option<Instant>,
    /// Since when it calls itself ready.
    ready: Option<Instant>,
    pub stamp: Stamp,
    /// When it is to be looked at again, as the agenda of the table has it.
    pub scheduled: Option<Instant>,
}

impl Hold {
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// How much memory those who wait take up.
    pub fn weight(&self) -> u64 {
        self.waiters.weight()
    }

    pub fn join(&mut self, number: u64, waiter: Waiter) {
        self.waiters.join(number, waiter);
    }

    /// Since when somebody waits.
    pub fn waiting(&self) -> Option<Instant> {
        self.waiters.first().map(|waiter| waiter.arrived)
    }

    /// A client is gone.
    pub fn leave(&mut self, number: u64) {
        if self.waiters.leave(number).is_some() {
            self.abandon_if_empty();
        }
    }

    /// With the last one who waits goes the probe: it says nothing to those who come later.
    fn abandon_if_empty(&mut self) {
        if self.waiters.is_empty() {
            self.probe = None;
        }
    }

    /// Whether the engine was seen to ask for pods, and to call itself ready.
    pub fn saw(&mut self, running: bool, ready: bool, now: Instant) {
        self.scaled = running.then(|| self.scaled.unwrap_or(now));
        self.ready = ready.then(|| self.ready.unwrap_or(now));
    }

    /// Whether Envoy may not have noticed yet that the engine is ready: others wait for that.
    pub fn catches_up(&self, now: Instant) -> bool {
        !self.waiters.is_empty() && self.ready.is_none_or(|ready| now < ready + CATCHES_UP)
    }

    /// Whether a request that comes now need not wait.
    pub fn passes(&self, now: Instant) -> bool {
        self.reached.is_some_and(|reached| now < reached + RECENT)
    }

    /// Whether it is time to confirm that requests need not wait.
    pub fn wears_off(&self, now: Instant) -> bool {
        self.probe.is_none() && self.reached.is_some_and(|reached| now >= reached + RECENT / 2)
    }

    /// When something is to be done: the next probe, giving up the one under way, or sending somebody away.
    pub fn due(&self, closing: Option<Instant>) -> Option<Instant> {
        let deadline = self.waiters.first().map(|waiter| cut(waiter, closing));
        let probe = match self.probe {
            Some((_, began)) => Some(began + TIMEOUT),
            None => self.next_probe(closing),
        };
        earliest(deadline, probe)
    }

    fn next_probe(&self, closing: Option<Instant>) -> Option<Instant> {
        let since = self.waiting()?;
        let Some(probed) = self.probed else {
            return Some(since);
        };
        let soonest = probed + GAP;
        let regular = if self.ready.is_some() { soonest } else { probed + EVERY };
        let mut deadlines = self.waiters.values().map(|waiter| cut(waiter, closing));
        let unseen = deadlines.find(|deadline| *deadline > probed + LAST_LOOK);
        let last_look = unseen.and_then(|deadline| deadline.checked_sub(LAST_LOOK));
        earliest(Some(regular), last_look.map(|last_look| last_look.max(soonest)))
    }

    /// Whether there is a probe to begin now.
    pub fn probe_begins(&self, closing: Option<Instant>, now: Instant) -> bool {
        self.probe.is_none() && self.next_probe(closing).is_some_and(|due| due <= now)
    }

    pub fn begin_probe(&mut self, ticket: u64, now: Instant) {
        self.probe = Some((ticket, now));
        self.probed = Some(now);
    }

    /// A probe has ended, one way or the other. Returns whether anybody cares.
    pub fn end_probe(&mut self, ticket: u64, reached: bool, now: Instant) -> bool {
        let current = self.probe.take_if(|(under_way, _)| *under_way == ticket).is_some();
        if current {
            self.reached = reached.then_some(now);
        }
        current
    }

    /// Gives up a probe that takes too long.
    pub fn expire_probe(&mut self, now: Instant) {
        if let Some((ticket, _)) = self.probe.filter(|(_, began)| now >= *began + TIMEOUT) {
            self.end_probe(ticket, false, now);
        }
    }

    /// Takes out those whose time is over.
    pub fn expired(&mut self, closing: Option<Instant>, now: Instant) -> Vec<(u64, Stages)> {
        let taken = self.waiters.take_while(|waiter| cut(waiter, closing) <= now);
        if !taken.is_empty() {
            self.abandon_if_empty();
        }
        let stages = |(number, waiter)| (number, self.stages(&waiter, now));
        taken.into_iter().map(stages).collect()
    }

    /// Takes out everybody.
    pub fn everybody(&mut self, now: Instant) -> Vec<(u64, Stages)> {
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

    /// Whether any of this still matters if no request comes.
    pub fn matters(&self, now: Instant) -> bool {
        let probed = self.probed.is_some_and(|probed| now < probed + GAP);
        !self.waiters.is_empty() || self.probe.is_some() || self.passes(now) || probed
    }
}

fn cut(waiter: &Waiter, closing: Option<Instant>) -> Instant {
    closing.map_or(waiter.deadline, |closing| closing.min(waiter.deadline))
}
