//! When an object is looked at again after a pass, whether it went well or not.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::agenda::Again;
use crate::backoff::jittered;
use crate::write::{Nature, PassError};

/// The pause after a decision that was overtaken by events.
const SOON: Duration = Duration::from_millis(100);
/// The pause after a first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long after a failure events are not listened to, at most: what a failed pass did itself must not set off the next,
/// but whoever corrects what was wrong should not wait for long.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(2);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// What a process that no longer leads waits before it finds that it does after all.
const STILL_LEADING: Duration = Duration::from_secs(1);

/// How a pass ended, if not in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The next one is due then, if nothing is seen before; and not before `floor` if something is.
    Finished {
        /// When the next one is due.
        again: Option<Duration>,
        /// Before when it must not be made.
        floor: Option<Duration>,
    },
    /// It has to be made again then, and nothing was done so far.
    Unfinished(Duration),
}

/// How the attempts at one object went so far.
#[derive(Debug, Default)]
pub struct Attempts {
    /// How often a pass has failed in a row.
    failures: u32,
    /// What was last logged as an error, so that each is logged once.
    error: Option<String>,
}

impl Attempts {
    /// Things move on: whatever fails next fails for the first time.
    pub fn progressed(&mut self) {
        self.failures = 0;
    }

    /// A pass did not fail. While something is still `refused` and only held back, a failure that was told is not over.
    pub fn succeeded(&mut self, done: &Done, refused: bool) -> Again {
        let now = Instant::now();
        match done {
            Done::Unfinished(left) => Again {
                due: Some(now + *left),
                unfinished: true,
                ..Again::default()
            },
            Done::Finished { again, floor } => {
                self.failures = 0;
                if !refused && self.error.take().is_some() {
                    info!("it can be looked after again");
                }
                let due = [*again, *floor].into_iter().flatten().max();
                Again {
                    due: due.map(|due| now + due),
                    not_before: floor.map(|floor| now + floor),
                    unfinished: false,
                }
            }
        }
    }

    /// Every failure is told, once as long as it stays the same, and tried again with growing pauses.
    pub fn failed(&mut self, error: &PassError) -> Again {
        self.failures = self.failures.saturating_add(1);
        let pause = FIRST_PAUSE
            .saturating_mul(1 << (self.failures - 1).min(10))
            .min(LONGEST_PAUSE);
        let mut floor = pause.min(LONGEST_DEAFNESS);
        let (pause, expected) = match error.nature() {
            Nature::TermOver => {
                floor = STILL_LEADING;
                (STILL_LEADING, true)
            }
            // Somebody was quicker; that is how things go, unless it goes on.
            Nature::Outdated if self.failures <= 3 => {
                floor = SOON;
                (SOON, true)
            }
            Nature::Outdated | Nature::Refused(_) => (jittered(pause), false),
            Nature::Transient { not_before } => {
                floor = floor.max(not_before.unwrap_or_default());
                (jittered(pause).max(floor), false)
            }
        };
        let text = error.to_string();
        if expected || self.error.as_ref() == Some(&text) {
            debug!("cannot {text}; trying again in {pause:?}");
        } else {
            warn!("cannot {text}; trying again in {pause:?}");
            self.error = Some(text);
        }
        let now = Instant::now();
        Again {
            due: Some(now + pause),
            not_before: Some(now + floor),
            unfinished: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::key::ObjectKey;

    fn refused(code: u16) -> PassError {
        let status = Status {
            code,
            ..Status::failure("no room", "Reason")
        };
        PassError::Write {
            verb: "create",
            kind: "StatefulSet".to_owned(),
            object: ObjectKey::new("n", "a"),
            source: Box::new(kube::Error::Api(Box::new(status))),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_a_wait_that_is_asked_for_is_kept() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let pauses: Vec<Duration> = (0..12)
            .map(|_| attempts.failed(&refused(500)).due.unwrap() - start)
            .collect();
        assert!(pauses[0] <= FIRST_PAUSE && pauses[0] >= FIRST_PAUSE / 2, "{pauses:?}");
        assert!(
            pauses[11] <= LONGEST_PAUSE && pauses[11] >= LONGEST_PAUSE / 2,
            "{pauses:?}"
        );
        let mut fresh = Attempts::default();
        let shed = fresh.failed(&refused(429));
        assert!(shed.due.unwrap() - start >= Duration::from_secs(1));
        assert!(shed.not_before.unwrap() - start >= Duration::from_secs(1));
        let over = fresh.failed(&PassError::TermOver);
        assert_eq!(over.due, Some(start + STILL_LEADING), "unless it leads after all");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_starts_the_pauses_over() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..12 {
            attempts.failed(&refused(500));
        }
        attempts.progressed();
        assert!(attempts.failed(&refused(500)).due.unwrap() - start <= FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_that_was_overtaken_is_made_again_soon_unless_that_goes_on() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let outdated = PassError::Outdated {
            object: ObjectKey::new("n", "a"),
        };
        for _ in 0..3 {
            assert_eq!(attempts.failed(&outdated).due, Some(start + SOON));
        }
        assert!(attempts.failed(&outdated).due.unwrap() - start > SOON);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_has_to_wait_is_as_urgent_as_it_was() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let wait = attempts.succeeded(&Done::Unfinished(SOON), false);
        assert!(wait.unfinished && wait.due == Some(start + SOON) && wait.not_before.is_none());
        let done = |again, floor| Done::Finished { again, floor };
        assert_eq!(attempts.succeeded(&done(None, None), false), Again::default());
        let fight = attempts.succeeded(&done(Some(Duration::ZERO), Some(SOON)), false);
        assert_eq!((fight.due, fight.not_before), (Some(start + SOON), Some(start + SOON)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_over_when_a_pass_went_well_with_nothing_held_back() {
        let mut attempts = Attempts::default();
        let well = Done::Finished {
            again: None,
            floor: None,
        };
        attempts.failed(&refused(422));
        attempts.succeeded(&Done::Unfinished(SOON), false);
        assert!(attempts.error.is_some(), "nothing was done");
        attempts.succeeded(&well, true);
        assert!(attempts.error.is_some(), "it was only not tried again");
        attempts.succeeded(&well, false);
        assert!(attempts.error.is_none());
    }
}
