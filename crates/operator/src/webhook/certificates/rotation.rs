//! What is to be done next about the certificate, as a pure function of what is stored, what is trusted, and the time.
//!
//! What carries the promise that no request of an API server fails for its certificate:
//!
//! - A new pair is stored *beside* the one that is served. It takes its place only after all webhooks have carried its
//!   authority for a settling time, in which every API server learns of it.
//! - The authority of the pair before stays in the bundle, since replicas learn of the new pair one after the other.
//! - If the Secret is lost or unusable, replicas go on with what they have in memory. Whatever the webhooks trust
//!   therefore stays trusted, and the new pair has to settle like any other, only for a shorter time: a replica that has
//!   just started has nothing to serve until then.
//! - Only if no webhook trusts anything that is still valid, nobody can be served properly by anybody, and the new pair
//!   takes its place at once.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::content::Content;
use super::material::{Bundle, Hosts, Pair};
use super::mint::backdate;

/// API servers learn of a change by watch, most in an instant; one that has fallen behind has this long.
const LONGEST_SETTLING: Duration = Duration::from_mins(5);
/// Validities of seconds are for trying things out.
const SHORTEST_SETTLING: Duration = Duration::from_secs(1);
/// With nothing to serve from the Secret, each moment of waiting may be one in which nobody is admitted.
const LONGEST_SETTLING_WHEN_LOST: Duration = Duration::from_secs(10);

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the certificate is for.
    pub hosts: Hosts,
    /// How long it is valid.
    pub validity: Duration,
    /// How long an authority is trusted before what it vouches for is served.
    pub settling: Duration,
    /// The same if there is nothing else to serve.
    pub settling_when_lost: Duration,
}

impl Wanted {
    /// Certificates for these hosts, valid for so long.
    #[must_use]
    pub fn new(hosts: Hosts, validity: Duration) -> Self {
        let settling = (validity / 100).clamp(SHORTEST_SETTLING, LONGEST_SETTLING);
        Self {
            hosts,
            validity,
            settling,
            settling_when_lost: settling.min(LONGEST_SETTLING_WHEN_LOST),
        }
    }

    /// From when on the pair is to be replaced: after two thirds of its validity, or at once if it is for other hosts, or
    /// valid for much longer than is wanted.
    fn due(&self, pair: &Pair, now: Timestamp) -> Timestamp {
        let is_too_long = pair.ends() > now + self.validity + backdate(self.validity);
        if pair.hosts() != &self.hosts || is_too_long {
            return now;
        }
        pair.ends() - self.validity / 3
    }

    fn is_due(&self, pair: &Pair, now: Timestamp) -> bool {
        self.due(pair, now) <= now
    }
}

/// What is known of one of the two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    Unknown,
    /// It is not there, so nobody is asked by it.
    Absent,
    /// It is there; the `caBundle` of each of its webhooks.
    Present(Vec<Vec<u8>>),
}

impl Seen {
    /// Whether it asks nobody, or trusts exactly these.
    #[must_use]
    pub fn holds(&self, rendered: &[u8]) -> bool {
        match self {
            Self::Unknown => false,
            Self::Absent => true,
            Self::Present(bundles) => bundles.iter().all(|bundle| bundle == rendered),
        }
    }

    fn trusted(&self) -> Bundle {
        match self {
            Self::Unknown | Self::Absent => Bundle::default(),
            Self::Present(bundles) => bundles
                .iter()
                .fold(Bundle::default(), |all, bundle| all.then(Bundle::read(bundle))),
        }
    }
}

/// Since when the webhooks are seen to trust what the Secret says.
///
/// This is kept in memory only: a leader that follows another waits once more, which is safe, and needs no clock that two
/// machines agree on.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    since: Option<(Vec<u8>, Instant)>,
}

impl Holding {
    /// Takes in another look, and says for how long.
    pub fn update(&mut self, bundle: &Bundle, seen: &[Seen], now: Instant) -> Option<Duration> {
        let rendered = bundle.render();
        if !seen.iter().all(|seen| seen.holds(&rendered)) {
            self.since = None;
            return None;
        }
        match &self.since {
            Some((held, since)) if *held == rendered => Some(now - *since),
            Some(_) | None => {
                self.since = Some((rendered, now));
                Some(Duration::ZERO)
            }
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A configuration has not been read yet: wait for that.
    Look,
    /// Make a pair and have it served at once. Trust these besides.
    Begin(Bundle),
    /// Make a pair and store it beside the one that is served. Trust these besides.
    Stage(Bundle),
    /// Write this into the Secret.
    Store(Box<Content>),
    /// Write the bundle into the configurations that do not have it.
    Trust,
    /// Nothing for so long, unless something changes.
    Rest(Duration),
}

/// Decides. `held_for` is how long all configurations have been seen to trust what the Secret says, if they do.
#[must_use]
pub fn decide(content: &Content, seen: &[Seen], held_for: Option<Duration>, wanted: &Wanted, now: Timestamp) -> Step {
    if seen.contains(&Seen::Unknown) {
        return Step::Look;
    }
    let trusted = seen
        .iter()
        .fold(Bundle::default(), |all, seen| all.then(seen.trusted()));
    let trusted = trusted.valid_at(now);
    let own = content.bundle.valid_at(now);
    let vouching = |pair: &Pair| own.clone().then(trusted.clone()).vouching_for(pair, now);
    let current = content.current.as_ref().filter(|pair| !vouching(pair).is_empty());
    let next = content.next.as_ref();
    let next = next.filter(|pair| own.vouches_for(pair, now) && !wanted.is_due(pair, now));
    match (current, next) {
        (None, None) if trusted.is_empty() => Step::Begin(own.latest_first()),
        (None, None) => Step::Stage(trusted.then(own.latest_first())),
        (None, Some(_)) => settle(content, held_for, wanted.settling_when_lost),
        (Some(current), _) if !own.vouches_for(current, now) => Step::Store(Box::new(Content {
            bundle: vouching(current).then(trusted).then(own.latest_first()),
            ..content.clone()
        })),
        (Some(_), Some(_)) => settle(content, held_for, wanted.settling),
        (Some(current), None) if wanted.is_due(current, now) => Step::Stage(vouching(current).then(own.latest_first())),
        (Some(_), None) if held_for.is_none() => Step::Trust,
        (Some(current), None) => Step::Rest(until(wanted.due(current, now), now)),
    }
}

fn settle(content: &Content, held_for: Option<Duration>, settling: Duration) -> Step {
    match held_for {
        None => Step::Trust,
        Some(held_for) => match settling.checked_sub(held_for) {
            None | Some(Duration::ZERO) => Step::Store(Box::new(content.promote())),
            Some(rest) => Step::Rest(rest),
        },
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    due.duration_since(now).try_into().unwrap_or_default()
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rotation_simulation.rs"]
mod simulation;
