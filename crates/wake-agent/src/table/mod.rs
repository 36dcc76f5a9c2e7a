//! The hold table: for each request to an engine, whether Envoy passes it on, lets it wait, or refuses it.
//!
//! Flow: [`Table::arrive`] for each request and [`Table::handle`] for everything else that happens; do the [`Effect`]s
//! that come back, and call with [`Event::Tick`] when [`Table::wake_at`] has come. That is all that there is to do: the
//! table decides when to list, to probe and to patch. Nothing here waits, reads a clock or throws dice.
//!
//! # What a request gets
//!
//! The first line that applies.
//!
//! | The engine | The request |
//! |---|---|
//! | has a name that no engine can have | is refused: 400 |
//! | is any, and there is no list yet, or listings fail and the last list is ten seconds old | passes, as if we were not there |
//! | is on no list | waits for a list that is begun later, and then is refused: 404. Engines of other instances are on no list of ours, so nobody can tell them from none |
//! | is ready | passes; for the first five seconds only if nobody waits, since Envoy may not know yet |
//! | is stopped, and auto-stop is off | is refused: 503 |
//! | is not ready and not being stopped, and a probe reached it within the last second | passes |
//! | is stopped, and we are not allowed to wake it | is refused: 503 |
//! | is any other, and no room is left | is refused: 503. A stopped engine is asked for before that is found out |
//! | is any other | waits |
//!
//! Who waits is looked at again with everything that happens, and refused as soon as there is a reason. Only a probe
//! through Envoy lets it go; what the API server says is a reason to probe. At the end of its time it is sent away: to
//! Envoy if the engine calls itself ready, since routing is never lost because of us, else with a 503. The last probe
//! before that began in the last quarter of a second, or is still under way.
//!
//! # Guarantees, whatever happens in whatever order
//!
//! - Every request is answered once, at its deadline at the latest, unless its client leaves.
//! - No more requests wait than there is memory for, and no more than a quarter of it is for names on no list, unless there
//!   is only one: made-up names cannot take up the room, and they are not remembered.
//!   Each request counts with what Envoy may have to keep of it, and with [`OVERHEAD`].
//! - Listings begin a quarter of a second apart, and after one the API server is left alone for four times as long as it
//!   took, or two seconds. Probes of an engine begin a tenth of a second apart, patches of an engine half a second after a
//!   failure and ten seconds after a success.
//! - News of a probe, patch or listing that was given up, or that belongs to requests which are gone, change nothing.
//!
//! # Assumptions
//!
//! Time goes forward, and ticks come on time. The caller does what it is asked to, but may be slow, fail, or never come
//! back. Its time of day is about right: the operator ignores a stamp that is five minutes old.

mod admit;
mod answer;
mod due;
mod engine;
mod event;
mod hold;
mod listing;
mod news;
mod queue;
mod stamp;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use answer::{Answer, Refusal, Route, Stages};
pub use engine::Engine;
pub use event::{Arrival, Effect, Event, List, Now, Patch, PatchOutcome, Probe, WaiterId};
pub use hold::{LAST_LOOK, TIMEOUT as PROBE_TIMEOUT};
pub use listing::TIMEOUT as LIST_TIMEOUT;
pub use queue::{LARGEST as LARGEST_BODY, OVERHEAD};
pub use stamp::TIMEOUT as PATCH_TIMEOUT;

use due::Look;
use hold::Hold;
use listing::Listing;
use queue::{Queue, Weighs};

/// What does not change while the table lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The instance whose gateway this is.
    pub instance: String,
    /// How many bytes the requests that wait may take up in Envoy.
    pub memory: u64,
    /// How long a request waits at most.
    pub hold_timeout: Duration,
}

/// The requests that wait, and what is known of engines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    settings: Settings,
    listing: Listing,
    /// The engines of this instance.
    known: BTreeMap<Arc<str>, Known>,
    /// What is going on for engines that are not ready.
    holds: BTreeMap<Arc<str>, Hold>,
    /// When to look at which hold again.
    agenda: BTreeSet<(Instant, Arc<str>)>,
    /// Requests for names on no list.
    strangers: Queue<Stranger>,
    closing: Option<Instant>,
    /// The last number that was given to a request, a listing, a probe or a patch.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    engine: Engine,
    /// When somebody asked for it, by our clock. None if that is not to be believed.
    asked: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stranger {
    name: Arc<str>,
    arrived: Instant,
    weight: u64,
}

impl Weighs for Stranger {
    fn weight(&self) -> u64 {
        self.weight
    }
}

impl Table {
    /// A table that knows nothing yet. [`Event::Tick`] sets it going.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            listing: Listing::default(),
            known: BTreeMap::new(),
            holds: BTreeMap::new(),
            agenda: BTreeSet::new(),
            strangers: Queue::default(),
            closing: None,
            number: 0,
        }
    }

    /// Whether engines were ever listed. Until then every request passes.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.listing.synced()
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.strangers.len() + self.holds.values().map(Hold::len).sum::<usize>()
    }

    /// How many bytes they take up: of what Envoy may have to keep of each, with what it needs besides.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.strangers.weight() + self.holds.values().map(Hold::weight).sum::<u64>()
    }

    /// When to call with [`Event::Tick`], as of the last call. None before the first one.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        let first = self.agenda.first().map(|(due, _)| *due);
        debug_assert_eq!(first, self.first_due(), "the agenda is out of date");
        let patience = |stranger| patience(stranger, self.settings.hold_timeout, self.closing);
        let stranger = self.strangers.first().map(patience);
        let listing = self.listing.due(self.somebody_waits(), self.list_wanted());
        earliest(earliest(first, stranger), listing)
    }

    /// What comes first of everything that is to be done for an engine, by looking at all of them.
    fn first_due(&self) -> Option<Instant> {
        let dues = self.holds.iter().filter_map(|(name, hold)| self.due(name, hold));
        dues.min()
    }

    fn somebody_waits(&self) -> bool {
        !self.strangers.is_empty() || self.holds.values().any(|hold| hold.len() > 0)
    }

    /// A request came, of which Envoy may have to keep so many bytes. One for an engine that is ready costs a look into the
    /// list and nothing else, and once a second it is a reason for a new list. If it passes at once and without effects,
    /// [`Table::wake_at`] need not be asked again.
    #[must_use]
    pub fn arrive(&mut self, now: Now, engine: &str, bytes: u64) -> (Arrival, Vec<Effect>) {
        let mut effects = Vec::new();
        let arrival = self.admit(now, engine, bytes, &mut effects);
        (arrival, effects)
    }

    /// Something happened.
    #[must_use]
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let look = match event {
            Event::Tick => Look::WhereDue,
            Event::Closing(by) => {
                self.closing = earliest(self.closing, Some(by));
                Look::Everywhere
            }
            Event::Left(waiter) => {
                self.left(&waiter);
                Look::At(waiter.engine)
            }
            Event::Listed(list, engines) => {
                self.listed(now, list.ticket, engines, &mut effects);
                Look::Everywhere
            }
            Event::Probed(probe, reached) => {
                self.probed(now, &probe, reached, &mut effects);
                Look::At(probe.engine)
            }
            Event::Patched(patch, outcome) => {
                self.patched(now, &patch, outcome);
                Look::At(patch.engine)
            }
        };
        self.advance(now, look, &mut effects);
        effects
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Since when somebody waits for a newer list. Only those wait who came after the last one began.
    fn list_wanted(&self) -> Option<Instant> {
        self.strangers.first().map(|stranger| stranger.arrived)
    }
}

/// When a request for an unknown name passes, since no list has come.
fn patience(stranger: &Stranger, hold_timeout: Duration, closing: Option<Instant>) -> Instant {
    let deadline = stranger.arrived + hold_timeout.min(LIST_TIMEOUT);
    closing.map_or(deadline, |closing| closing.min(deadline))
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

fn latest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.max(other)
}

fn answer(number: u64, engine: &Arc<str>, answer: Answer) -> Effect {
    let engine = Arc::clone(engine);
    Effect::Answer(WaiterId { number, engine }, answer)
}
