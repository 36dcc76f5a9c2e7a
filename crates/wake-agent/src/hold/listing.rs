//! When the engines are listed, and how long a list is valid.

use std::time::{Duration, Instant};

use super::time::{earliest, latest};

/// How often the engines are listed while there are requests.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often they are listed while there are none. An engine that stops in the meantime is noticed that much later.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// The minimum time between the starts of two listings. It limits what made-up names cost the API server.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// After a listing, the API server is left alone for this many times its duration, so that most of its time is left for
/// other clients however many engines there are.
const COOLDOWN_FACTOR: u32 = 4;
/// The maximum of that: an engine that was created since has to be found.
const MAX_COOLDOWN: Duration = Duration::from_secs(2);
/// The time after which a listing has failed.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last list is valid while listings fail. A single failure means little; after several, the last list
/// says little about the present.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The listings of one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    /// The listing in flight, and when it started.
    in_flight: Option<(u64, Instant)>,
    /// When the last listing started.
    started: Option<Instant>,
    /// Until when the API server is left alone.
    cooldown: Option<Instant>,
    /// When the last successful listing started.
    succeeded: Option<Instant>,
    /// Whether the last listing failed.
    failing: bool,
}

impl Listing {
    /// Whether there ever was a list.
    pub(super) fn synced(&self) -> bool {
        self.succeeded.is_some()
    }

    /// Whether the last list is valid.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.succeeded
            .is_some_and(|succeeded| !self.failing || now.saturating_duration_since(succeeded) < MAX_AGE)
    }

    /// When the next listing is due, or when the one in flight times out. `requested` is the arrival of a request that
    /// needs a newer list. None before the first listing.
    pub(super) fn due(&self, holding: bool, requested: Option<Instant>) -> Option<Instant> {
        if let Some((_, started)) = self.in_flight {
            return Some(started + TIMEOUT);
        }
        let started = self.started?;
        let regular = started
            + if holding || self.failing {
                INTERVAL
            } else {
                IDLE_INTERVAL
            };
        let due = earliest(
            Some(regular),
            requested.map(|requested| requested.max(started + MIN_INTERVAL)),
        );
        latest(due, self.cooldown)
    }

    /// Whether a listing has to start now.
    pub(super) fn starts(&self, now: Instant, holding: bool, requested: Option<Instant>) -> bool {
        self.in_flight.is_none() && self.due(holding, requested).is_none_or(|due| due <= now)
    }

    /// Whether a request that arrives now starts a listing.
    pub(super) fn needs_refresh(&self, now: Instant) -> bool {
        let cooling_down = self.cooldown.is_some_and(|cooldown| cooldown > now);
        self.in_flight.is_none() && !cooling_down && self.started.is_some_and(|started| started + INTERVAL <= now)
    }

    pub(super) fn start(&mut self, id: u64, now: Instant) {
        self.in_flight = Some((id, now));
        self.started = Some(now);
    }

    /// The listing in flight, if it has timed out.
    pub(super) fn timed_out(&self, now: Instant) -> Option<u64> {
        let late = self.in_flight.filter(|(_, started)| now >= *started + TIMEOUT);
        late.map(|(id, _)| id)
    }

    /// A listing has ended. Returns when it started; None if it timed out before.
    pub(super) fn end(&mut self, id: u64, succeeded: bool, now: Instant) -> Option<Instant> {
        let (_, started) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id)?;
        let took = now.saturating_duration_since(started);
        self.cooldown = Some(now + (took * COOLDOWN_FACTOR).min(MAX_COOLDOWN));
        self.failing = !succeeded;
        if succeeded {
            self.succeeded = Some(started);
        }
        Some(started)
    }
}
