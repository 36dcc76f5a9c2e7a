//! When to reconcile an object again, after success and after failure.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::backoff::jittered;
use crate::queue::Requeue;
use crate::reconcile_error::{ErrorClass, ReconcileError};

/// The delay after a conflict.
const CONFLICT_DELAY: Duration = Duration::from_millis(100);
/// The delay after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// How long after a failure changes do not trigger a reconcile, at most: a failed reconcile must not be triggered again by
/// its own writes, but a user who corrects the cause should not wait for long.
const LONGEST_THROTTLE: Duration = Duration::from_secs(2);
/// The longest delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_mins(1);
/// The delay of a process that is not the leader: it may find that it is after all.
const NOT_LEADER_DELAY: Duration = Duration::from_secs(1);

/// How a reconcile ended, if not in an error.
#[derive(Debug)]
pub enum Outcome {
    /// All is done that can be done now.
    Done {
        /// When to reconcile again even if nothing changes.
        requeue_after: Option<Duration>,
        /// For how long changes do not trigger a reconcile, unless they are urgent.
        throttle: Option<Duration>,
        /// A request that the API server rejected earlier is still outstanding, so an error that was logged is not over.
        rejected: bool,
        /// What another client changed was changed back.
        corrected_drift: bool,
    },
    /// Nothing was done: the caches do not show our own writes yet. Reconcile again after this time.
    Wait(Duration),
    /// The API server rejected a request, and the state of the object contains why. Counts as an error; the reconcile that
    /// follows at once reports it and does the rest.
    Rejected(ReconcileError),
}

#[cfg(test)]
impl Outcome {
    /// All is done, and only a change triggers the next reconcile.
    pub(crate) const DONE: Self = Self::Done {
        requeue_after: None,
        throttle: None,
        rejected: false,
        corrected_drift: false,
    };

    /// All is done that can be done now; reconcile again after this time.
    pub(crate) fn requeue_after(delay: Duration) -> Self {
        Self::Done {
            requeue_after: Some(delay),
            throttle: None,
            rejected: false,
            corrected_drift: false,
        }
    }
}

/// The failures of one object in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    /// The error that was last logged of each attempt, so that it is logged once.
    errors: BTreeMap<String, String>,
}

impl Backoff {
    /// A write succeeded: the next failure is the first one.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// A reconcile did not fail.
    pub(super) fn succeeded(&mut self, outcome: &Outcome) -> Requeue {
        let now = Instant::now();
        match outcome {
            &Outcome::Wait(left) => Requeue {
                at: Some(now + left),
                keep_priority: true,
                ..Requeue::default()
            },
            Outcome::Rejected(error) => {
                self.log("request rejected", error);
                Requeue {
                    at: Some(now),
                    ..Requeue::default()
                }
            }
            &Outcome::Done {
                requeue_after,
                throttle,
                rejected,
                corrected_drift: _,
            } => {
                self.failures = 0;
                if !rejected && !std::mem::take(&mut self.errors).is_empty() {
                    info!("reconcile succeeded after failures");
                }
                let delay = [requeue_after, throttle].into_iter().flatten().max();
                Requeue {
                    at: delay.map(|delay| now + delay),
                    not_before: throttle.map(|throttle| now + throttle),
                    keep_priority: false,
                }
            }
        }
    }

    /// A reconcile failed. The error is logged, once as long as it stays the same, and retried with exponential backoff.
    pub(super) fn failed(&mut self, error: &ReconcileError) -> Requeue {
        self.failures = self.failures.saturating_add(1);
        let delay = FIRST_DELAY
            .saturating_mul(1 << (self.failures - 1).min(10))
            .min(LONGEST_DELAY);
        let mut throttle = delay.min(LONGEST_THROTTLE);
        let (delay, expected) = match error.class() {
            ErrorClass::NotLeader => {
                throttle = NOT_LEADER_DELAY;
                (NOT_LEADER_DELAY, true)
            }
            // Conflicts are normal, unless they go on.
            ErrorClass::Conflict if self.failures <= 3 => {
                throttle = CONFLICT_DELAY;
                (CONFLICT_DELAY, true)
            }
            ErrorClass::Conflict | ErrorClass::Rejected(_) => (jittered(delay), false),
            ErrorClass::Transient { retry_after } => {
                throttle = throttle.max(retry_after.unwrap_or_default());
                (jittered(delay).max(throttle), false)
            }
        };
        let failed = format!("reconcile failed, retrying in {delay:?}");
        if expected {
            debug!("{failed}: {error}");
        } else {
            self.log(&failed, error);
        }
        let now = Instant::now();
        Requeue {
            at: Some(now + delay),
            not_before: Some(now + throttle),
            keep_priority: true,
        }
    }

    fn log(&mut self, event: &str, error: &ReconcileError) {
        if self.is_new(error) {
            warn!("{event}: {error}");
        } else {
            debug!("{event}: {error}");
        }
    }

    /// Whether the error differs from the last one of this attempt.
    fn is_new(&mut self, error: &ReconcileError) -> bool {
        let text = error.to_string();
        self.errors.insert(error.attempt(), text.clone()) != Some(text)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::key::ObjectKey;

    fn response(code: u16) -> ReconcileError {
        let status = Status {
            code,
            ..Status::failure("no room", "Reason")
        };
        ReconcileError::Write {
            verb: "create",
            kind: "StatefulSet".to_owned(),
            object: ObjectKey::new("n", "a"),
            source: Box::new(kube::Error::Api(Box::new(status))),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_and_retry_after_is_respected() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let delays: Vec<Duration> = (0..12)
            .map(|_| backoff.failed(&response(500)).at.unwrap() - start)
            .collect();
        assert!(delays[0] <= FIRST_DELAY && delays[0] >= FIRST_DELAY / 2, "{delays:?}");
        assert!(
            delays[11] <= LONGEST_DELAY && delays[11] >= LONGEST_DELAY / 2,
            "{delays:?}"
        );
        let mut fresh = Backoff::default();
        let shed = fresh.failed(&response(429));
        assert!(shed.at.unwrap() - start >= Duration::from_secs(1));
        assert!(shed.not_before.unwrap() - start >= Duration::from_secs(1));
        let over = fresh.failed(&ReconcileError::NotLeader);
        assert_eq!(over.at, Some(start + NOT_LEADER_DELAY), "unless it leads after all");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_resets_the_delays() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        for _ in 0..12 {
            backoff.failed(&response(500));
        }
        backoff.reset();
        assert!(backoff.failed(&response(500)).at.unwrap() - start <= FIRST_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_retried_soon_unless_conflicts_go_on() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let conflict = ReconcileError::Conflict {
            object: ObjectKey::new("n", "a"),
        };
        for _ in 0..3 {
            assert_eq!(backoff.failed(&conflict).at, Some(start + CONFLICT_DELAY));
        }
        assert!(backoff.failed(&conflict).at.unwrap() - start > CONFLICT_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_has_to_wait_keeps_its_priority() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let wait = backoff.succeeded(&Outcome::Wait(CONFLICT_DELAY));
        assert!(wait.keep_priority && wait.at == Some(start + CONFLICT_DELAY) && wait.not_before.is_none());
        let done = |requeue_after, throttle| Outcome::Done {
            requeue_after,
            throttle,
            rejected: false,
            corrected_drift: false,
        };
        assert_eq!(backoff.succeeded(&done(None, None)), Requeue::default());
        let limited = backoff.succeeded(&done(Some(Duration::ZERO), Some(CONFLICT_DELAY)));
        assert_eq!(
            (limited.at, limited.not_before),
            (Some(start + CONFLICT_DELAY), Some(start + CONFLICT_DELAY))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_over_when_a_reconcile_succeeds_and_nothing_is_rejected() {
        let mut backoff = Backoff::default();
        let outstanding = Outcome::Done {
            requeue_after: None,
            throttle: None,
            rejected: true,
            corrected_drift: false,
        };
        backoff.failed(&response(422));
        backoff.succeeded(&Outcome::Wait(CONFLICT_DELAY));
        assert!(!backoff.errors.is_empty(), "nothing was done");
        backoff.succeeded(&outstanding);
        assert!(!backoff.errors.is_empty(), "it was not tried again");
        let rejected = backoff.succeeded(&Outcome::Rejected(response(422)));
        assert_eq!(
            (rejected.at, rejected.not_before),
            (Some(Instant::now()), None),
            "it is reported at once"
        );
        assert!(!backoff.errors.is_empty(), "it was rejected");
        backoff.succeeded(&Outcome::DONE);
        assert!(backoff.errors.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_and_a_rejection_are_logged_once_while_they_stay_the_same() {
        let (mut backoff, failure) = (Backoff::default(), response(500));
        let rejected = || ReconcileError::Conflict {
            object: ObjectKey::new("n", "b"),
        };
        backoff.succeeded(&Outcome::Rejected(rejected()));
        backoff.failed(&failure);
        assert!(!backoff.is_new(&rejected()) && !backoff.is_new(&failure), "sent again");
        assert!(backoff.is_new(&response(422)), "another response");
        backoff.succeeded(&Outcome::DONE);
        assert!(backoff.is_new(&rejected()) && backoff.is_new(&failure));
    }
}
