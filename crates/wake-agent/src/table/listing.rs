//! When engines are listed, and how long a list is believed.

use std::time::{Duration, Instant};

use super::{earliest, latest};

/// How often engines are listed while there are requests.
pub const EVERY: Duration = Duration::from_secs(1);
/// How often they are listed while there are none: an engine that stops meanwhile is not noticed any sooner.
const IDLE: Duration = Duration::from_secs(5);
/// How soon after one listing an unknown name may cause the next. It bounds what made-up names cost the API server.
const GAP: Duration = Duration::from_millis(250);
/// After a listing the API server is left alone for so many times as long as it took. Most of its time is for others,
/// however many engines there are.
const REST: u32 = 4;
/// But for no longer than that: an engine that was made since then is to be found.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// A listing that takes longer has failed.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// For how long the last list is believed while listings fail. One failure is nothing yet; after several, what was seen
/// last says little about now.
const BELIEVED: Duration = Duration::from_secs(10);

/// The listings of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    /// The one under way, and when it began.
    under_way: Option<(u64, Instant)>,
    /// When the last one began.
    began: Option<Instant>,
    /// How long the API server is left alone after the last one.
    rests: Option<Instant>,
    /// When the last one that succeeded began.
    succeeded: Option<Instant>,
    /// Whether the last one failed.
    failing: bool,
}

impl Listing {
    /// Whether there ever was a list.
    pub fn synced(&self) -> bool {
        self.succeeded.is_some()
    }

    /// Whether the list at hand says how things are.
    pub fn believed(&self, now: Instant) -> bool {
        self.succeeded
            .is_some_and(|succeeded| !self.failing || now.saturating_duration_since(succeeded) < BELIEVED)
    }

    /// When the next one is due, if none is under way; or when the one under way is given up. `wanted` is the time at
    /// which somebody came who needs a newer one. None before the first one.
    pub fn due(&self, waiting: bool, wanted: Option<Instant>) -> Option<Instant> {
        if let Some((_, began)) = self.under_way {
            return Some(began + TIMEOUT);
        }
        let began = self.began?;
        let regular = began + if waiting || self.failing { EVERY } else { IDLE };
        let due = earliest(Some(regular), wanted.map(|wanted| wanted.max(began + GAP)));
        latest(due, self.rests)
    }

    /// Whether there is one to begin now.
    pub fn begins(&self, now: Instant, waiting: bool, wanted: Option<Instant>) -> bool {
        self.under_way.is_none() && self.due(waiting, wanted).is_none_or(|due| due <= now)
    }

    /// Whether a request that comes now is a reason to begin one.
    pub fn wears_off(&self, now: Instant) -> bool {
        let rests = self.rests.is_some_and(|rests| rests > now);
        self.under_way.is_none() && !rests && self.began.is_some_and(|began| began + EVERY <= now)
    }

    pub fn begin(&mut self, ticket: u64, now: Instant) {
        self.under_way = Some((ticket, now));
        self.began = Some(now);
    }

    /// Whether the one under way takes too long.
    pub fn lost(&self, now: Instant) -> Option<u64> {
        let lost = self.under_way.filter(|(_, began)| now >= *began + TIMEOUT);
        lost.map(|(ticket, _)| ticket)
    }

    /// One has ended. Returns when it began; None if it was given up before.
    pub fn end(&mut self, ticket: u64, succeeded: bool, now: Instant) -> Option<Instant> {
        let (_, began) = self.under_way.take_if(|(under_way, _)| *under_way == ticket)?;
        let took = now.saturating_duration_since(began);
        self.rests = Some(now + (took * REST).min(LONGEST_REST));
        self.failing = !succeeded;
        if succeeded {
            self.succeeded = Some(began);
        }
        Some(began)
    }
}
