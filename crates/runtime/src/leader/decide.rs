//! What a candidate or leader does next, as a pure function of what it observed of the Lease and when.
//!
//! Two rules carry the promise that at most one process leads:
//!
//! - A leader counts from the *start* of its last successful renewal, and stops at two thirds of the lease duration.
//!   A candidate counts a full duration from the moment it *saw* that renewal, which cannot be earlier. Each uses its
//!   own monotonic clock; the times written into the Lease are for people and are never compared with a clock here.
//! - Whatever cannot be taken back (taking the lease, giving up leadership to another holder) is decided only from a
//!   live read, and every write carries the version that was read.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// The part of a Lease that names the leader. A change of any field shows that the holder is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Who holds the lease; none when it was released.
    pub holder: Option<String>,
    /// When the holder took it.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub renewed: Option<Timestamp>,
    /// How often the lease has changed hands.
    pub transitions: i32,
    /// For how long after a renewal the holder may still act.
    pub duration: Option<Duration>,
}

impl From<&LeaseSpec> for LeaseRecord {
    fn from(spec: &LeaseSpec) -> Self {
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
            duration: seconds.filter(|&seconds| seconds > 0).map(Duration::from_secs),
        }
    }
}

/// What makes a record ours.
///
/// The identity alone is not enough: a process with a fixed identity may find the record of its own last run, or of
/// another process with the same identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Our identity.
    pub holder: String,
    /// When we took the lease, cut to microseconds as the API server stores it.
    pub acquired: Timestamp,
    /// The number of leader transitions up to this claim.
    pub transitions: i32,
}

impl Claim {
    /// Whether the record was written under this claim.
    #[must_use]
    pub(crate) fn is_in(&self, record: &LeaseRecord) -> bool {
        record.holder.as_deref() == Some(&self.holder)
            && record.acquired == Some(self.acquired)
            && record.transitions == self.transitions
    }
}

/// The durations that follow from the lease duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a candidate waits after the last renewal by a holder.
    pub duration: Duration,
}

impl Timing {
    /// How often a leader renews.
    #[must_use]
    pub(crate) fn renew_every(self) -> Duration {
        self.duration / 3
    }

    /// How long after the start of its last successful renewal a leader may act.
    #[must_use]
    pub fn give_up_after(self) -> Duration {
        self.duration * 2 / 3
    }

    /// The longest delay between two attempts after a failure.
    #[must_use]
    pub(crate) fn retry_every(self) -> Duration {
        self.duration / 10
    }
}

/// What was last observed of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedLease {
    /// The record; none when there is no Lease.
    pub record: Option<LeaseRecord>,
    /// When this process first observed the record in this state.
    pub changed: Instant,
    /// Until when the holder of a deleted Lease may still act.
    pub(crate) promised_until: Option<Instant>,
    /// Whether this is from a live read, and nothing has made it stale since.
    pub live: bool,
}

impl ObservedLease {
    /// Adds another observation of the Lease.
    #[must_use]
    pub(crate) fn update(
        before: Option<Self>,
        record: Option<LeaseRecord>,
        live: bool,
        timing: Timing,
        now: Instant,
    ) -> Self {
        match before {
            Some(before) if before.record == record => Self { live, ..before },
            before => {
                let promised_until = match (&record, before) {
                    (None, Some(before)) => before.promised_until(timing),
                    (None, None) | (Some(_), _) => None,
                };
                Self {
                    record,
                    changed: now,
                    promised_until,
                    live,
                }
            }
        }
    }

    /// Until when another holder may still consider itself the leader.
    fn promised_until(&self, timing: Timing) -> Option<Instant> {
        match &self.record {
            None => self.promised_until,
            Some(LeaseRecord { holder: None, .. }) => None,
            Some(record) => Some(self.changed + record.duration.unwrap_or(timing.duration)),
        }
    }
}

/// The standing of this process in the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for its turn. The claim is the one that was last sent, in case it was stored and the response was lost.
    Candidate {
        /// The claim of an attempt whose outcome is unknown.
        sent: Option<Claim>,
    },
    /// Is the leader.
    Leading {
        /// Our claim.
        claim: Claim,
        /// When the last successful renewal was begun.
        renewed: Instant,
    },
}

/// Why leadership ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal succeeded in time: another process may be about to take over.
    NotRenewed,
    /// The Lease names another holder, or none.
    Taken {
        /// Who holds it now.
        by: Option<String>,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElectionStep {
    /// Make a request.
    Request(Request),
    /// Do nothing until then, or until the Lease changes.
    Wait(Instant),
    /// Stop leading at once.
    Lost(Loss),
}

/// A request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Read the Lease.
    Read,
    /// Create the Lease with this process as the holder.
    Create,
    /// Acquire the Lease that was just read.
    Acquire,
    /// Renew the Lease that we hold.
    Renew,
}

/// Chooses the next step. `retry_at` is set after a failed request, holds back the next one, and is cleared by its success.
#[must_use]
pub(crate) fn decide(
    observed: Option<&ObservedLease>,
    standing: &Standing,
    timing: Timing,
    retry_at: Option<Instant>,
    now: Instant,
) -> ElectionStep {
    match standing {
        Standing::Candidate { sent } => decide_candidate(observed, sent.as_ref(), timing, retry_at, now),
        Standing::Leading { claim, renewed } => decide_leader(observed, claim, *renewed, timing, retry_at, now),
    }
}

fn decide_candidate(
    observed: Option<&ObservedLease>,
    sent: Option<&Claim>,
    timing: Timing,
    retry_at: Option<Instant>,
    now: Instant,
) -> ElectionStep {
    match retry_at {
        Some(at) if at > now => return ElectionStep::Wait(at),
        // A failure is over only when a request has succeeded. What the watch shows meanwhile, such as the winner of the race
        // for a new Lease, would otherwise be waited for as if nothing had failed.
        Some(_) => return ElectionStep::Request(Request::Read),
        None => {}
    }
    let Some(observed) = observed else {
        return ElectionStep::Request(Request::Read);
    };
    let is_ours = sent
        .zip(observed.record.as_ref())
        .is_some_and(|(claim, record)| claim.is_in(record));
    if !is_ours && let Some(until) = observed.promised_until(timing).filter(|&until| until > now) {
        return ElectionStep::Wait(until);
    }
    match (observed.live, &observed.record) {
        (false, _) => ElectionStep::Request(Request::Read),
        (true, None) => ElectionStep::Request(Request::Create),
        (true, Some(_)) => ElectionStep::Request(Request::Acquire),
    }
}

fn decide_leader(
    observed: Option<&ObservedLease>,
    claim: &Claim,
    renewed: Instant,
    timing: Timing,
    retry_at: Option<Instant>,
    now: Instant,
) -> ElectionStep {
    let give_up_at = renewed + timing.give_up_after();
    let renew_at = renewed + timing.renew_every();
    if now >= give_up_at {
        return ElectionStep::Lost(Loss::NotRenewed);
    }
    if let Some(at) = retry_at.filter(|&at| at > now) {
        return ElectionStep::Wait(at.min(give_up_at));
    }
    match observed {
        Some(ObservedLease {
            live: true,
            record: Some(record),
            ..
        }) if !claim.is_in(record) => ElectionStep::Lost(Loss::Taken {
            by: record.holder.clone(),
        }),
        // Deleted manually: leadership continues under the same claim, unless another process was faster.
        Some(ObservedLease {
            live: true,
            record: None,
            ..
        }) => ElectionStep::Request(Request::Create),
        Some(ObservedLease {
            live: true,
            record: Some(_),
            ..
        }) if now >= renew_at => ElectionStep::Request(Request::Renew),
        Some(ObservedLease {
            live: true,
            record: Some(_),
            ..
        }) => ElectionStep::Wait(renew_at),
        Some(ObservedLease { live: false, .. }) | None => ElectionStep::Request(Request::Read),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
