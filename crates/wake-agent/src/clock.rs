//! The time of the API server.
//!
//! The operator ignores wake requests that are minutes old or in the future. The clock of a node can be wrong by that
//! much, so each response of the API server, whose `Date` header has its time, corrects the clock of the agent. Small
//! differences are ignored: the header is precise to a second only, and the response was on its way for a while.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::hold::Now;

/// Smaller differences are ignored.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// A response that took longer is too imprecise.
const LONGEST_TRIP: SignedDuration = SignedDuration::from_secs(2);

/// The clock of the node, with its offset.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// How many milliseconds the API server is ahead of the node.
    ahead: AtomicI64,
}

impl Clock {
    /// The time by both clocks.
    pub(crate) fn now(&self) -> Now {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        let here = Timestamp::now();
        Now {
            monotonic: Instant::now().into_std(),
            wall: here.checked_add(ahead).unwrap_or(here),
        }
    }

    /// A response of the API server has this `Date`; the request was sent at that time of the node.
    pub(crate) fn correct_from(&self, date: &str, sent: Timestamp) {
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
            0 => info!("the clock of the node agrees with the API server again"),
            1.. => warn!(
                seconds,
                "the clock of the node is behind the API server, using the time of the API server"
            ),
            _ => warn!(
                seconds,
                "the clock of the node is ahead of the API server, using the time of the API server"
            ),
        }
    }
}

/// How far the clock behind `date` is ahead. None if that cannot be determined.
fn measure(date: &str, sent: Timestamp, received: Timestamp) -> Option<SignedDuration> {
    let trip = received.duration_since(sent);
    if trip.is_negative() || trip > LONGEST_TRIP {
        return None;
    }
    let there = DateTimeParser::new().parse_timestamp(date).ok()?;
    // It was written about half-way, and truncated to the second.
    let there = there.checked_add(SignedDuration::from_millis(500)).ok()?;
    Some(there.duration_since(sent) - trip / 2)
}

/// The next offset. It changes only if the difference matters, so that the time does not jump back and forth.
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
    fn small_differences_are_not_corrected(#[case] before: i64, #[case] measured: i64, #[case] after: i64) {
        let seconds = SignedDuration::from_secs;
        assert_eq!(correct(seconds(before), seconds(measured)), seconds(after));
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_offset_is_computed_from_the_date_of_a_response() {
        let date = "Mon, 01 Jun 2026 12:05:00 GMT";
        let (sent, received) = (at("2026-06-01T12:00:00Z"), at("2026-06-01T12:00:01Z"));
        assert_eq!(measure(date, sent, received), Some(SignedDuration::from_secs(300)));
        assert_eq!(
            measure(date, received, sent),
            None,
            "the clock was set back in the meantime"
        );
        assert_eq!(
            measure(date, sent, at("2026-06-01T12:00:03Z")),
            None,
            "it took too long"
        );
        assert_eq!(measure("soon", sent, received), None);
    }

    #[test]
    fn a_wrong_clock_returns_the_time_of_the_api_server() {
        let clock = Clock::default();
        clock.correct_from("Mon, 01 Jun 2099 12:05:00 GMT", Timestamp::now());
        let off = clock.now().wall.duration_since(at("2099-06-01T12:05:00Z"));
        assert!(off.abs() < SignedDuration::from_mins(1), "{off}");
    }
}
