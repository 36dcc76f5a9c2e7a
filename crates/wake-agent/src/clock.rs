//! The time, as the cluster has it.
//!
//! The operator takes no notice of a wake time that is minutes old or in the future. Clocks of nodes can be off by that
//! much, so each answer of the API server, which says what time it is there, corrects ours. Small differences are left
//! alone: the answer is exact to a second only, and was on its way for a while.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::table::Now;

/// A difference that is not worth a correction, or not worth another one.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// An answer that took longer says too little about the time.
const LONGEST_TRIP: SignedDuration = SignedDuration::from_secs(2);

/// The clock of this machine, with what it is off by.
#[derive(Debug, Default)]
pub struct Clock {
    /// How many milliseconds the cluster is ahead of this machine.
    ahead: AtomicI64,
}

impl Clock {
    /// The time by both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        let here = Timestamp::now();
        Now {
            monotonic: Instant::now().into_std(),
            wall: here.checked_add(ahead).unwrap_or(here),
        }
    }

    /// An answer of the API server came, with this `Date`; the request was sent at that time of this machine.
    pub fn learn(&self, date: &str, sent: Timestamp) {
        let received = Timestamp::now();
        let before = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        let Some(measured) = measure(date, sent, received) else {
            return;
        };
        let ahead = correct(before, measured);
        if ahead == before {
            return;
        }
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or_default();
        self.ahead.store(ahead, Ordering::Relaxed);
        let seconds = measured.as_secs();
        match ahead {
            0 => info!("the clock of this node agrees with that of the API server again"),
            1.. => warn!(
                seconds,
                "the clock of this node is behind that of the API server, which is used instead"
            ),
            _ => warn!(
                seconds,
                "the clock of this node is ahead of that of the API server, which is used instead"
            ),
        }
    }
}

/// How far the clock behind `date` is ahead of ours. None if that cannot be told.
fn measure(date: &str, sent: Timestamp, received: Timestamp) -> Option<SignedDuration> {
    let trip = received.duration_since(sent);
    if trip.is_negative() || trip > LONGEST_TRIP {
        return None;
    }
    let there = DateTimeParser::new().parse_timestamp(date).ok()?;
    // It was written about half-way, and cut to the second.
    let there = there.checked_add(SignedDuration::from_millis(500)).ok()?;
    Some(there.duration_since(sent) - trip / 2)
}

/// The next correction. It moves only by what matters, so that the time does not jump about.
fn correct(before: SignedDuration, measured: SignedDuration) -> SignedDuration {
    if (measured - before).abs() <= TOLERANCE {
        before
    } else if measured.abs() <= TOLERANCE {
        SignedDuration::ZERO
    } else {
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::in_time(0, 4, 0)]
    #[case::behind(0, 180, 180)]
    #[case::ahead(0, -180, -180)]
    #[case::steady(180, 176, 180)]
    #[case::drifting(180, 190, 190)]
    #[case::set_right(180, 3, 0)]
    #[case::almost_right(7, 4, 7)]
    fn only_what_matters_is_corrected(#[case] before: i64, #[case] measured: i64, #[case] after: i64) {
        let seconds = SignedDuration::from_secs;
        assert_eq!(correct(seconds(before), seconds(measured)), seconds(after));
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_date_of_an_answer_tells_the_difference() {
        let date = "Mon, 01 Jun 2026 12:05:00 GMT";
        let (sent, received) = (at("2026-06-01T12:00:00Z"), at("2026-06-01T12:00:01Z"));
        assert_eq!(measure(date, sent, received), Some(SignedDuration::from_secs(300)));
        assert_eq!(measure(date, received, sent), None, "our clock was set back meanwhile");
        assert_eq!(
            measure(date, sent, at("2026-06-01T12:00:03Z")),
            None,
            "it took too long"
        );
        assert_eq!(measure("soon", sent, received), None);
    }

    #[test]
    fn a_clock_that_is_off_tells_the_time_of_the_cluster() {
        let clock = Clock::default();
        clock.learn("Mon, 01 Jun 2099 12:05:00 GMT", Timestamp::now());
        let off = clock.now().wall.duration_since(at("2099-06-01T12:05:00Z"));
        assert!(off.abs() < SignedDuration::from_mins(1), "{off}");
    }
}
