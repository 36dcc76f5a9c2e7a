//! Why a watch failed, and which failures to log.

use std::time::Duration;

use firebolt_process::error::chain;
use kube::core::Status;
use kube::runtime::watcher::Error;
use tokio::time::Instant;

use crate::client::READ_TIMEOUT;
use crate::error::describe;

/// A connection that breaks from time to time is normal; so many failures in a row are logged.
const FAILURES_TO_LOG: u32 = 3;
/// Failures that go on for this long are logged however few: if an API server accepts connections and never responds, each
/// attempt takes minutes.
const TIME_TO_LOG: Duration = Duration::from_mins(1);
/// How long an attempt may take to connect, with a margin for a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(40);

/// Why a watch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The kind does not exist in the cluster.
    NotFound,
    /// The credentials are not valid.
    Unauthorized(String),
    /// A permission is missing.
    Forbidden(String),
    /// The API server rejects the request, of which a user wrote the label selector.
    BadSelector(String),
    /// The resource version of the watch is too old; the stream starts over with a list.
    Expired,
    /// Anything else, most likely the connection to the API server.
    Other(String),
}

impl WatchError {
    /// The cause of the error of a stream.
    #[must_use]
    pub fn new(error: &Error, has_user_selector: bool) -> Self {
        match error {
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status))
            | Error::WatchFailed(kube::Error::Api(status))
            | Error::WatchError(status) => Self::from_status(status, has_user_selector),
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                Self::Other(describe(error))
            }
            Error::NoResourceVersion => Self::Other(chain(error)),
        }
    }

    fn from_status(status: &Status, has_user_selector: bool) -> Self {
        match status.code {
            404 => Self::NotFound,
            403 => Self::Forbidden(status.message.clone()),
            401 => Self::Unauthorized(status.message.clone()),
            400 if has_user_selector => Self::BadSelector(status.message.clone()),
            410 => Self::Expired,
            code => Self::Other(format!("{} ({code})", status.message.trim_end())),
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::NotFound => "the CRD is not installed",
            Self::Expired => "the resource version is too old, the watch starts over with a list",
            Self::Unauthorized(message)
            | Self::Forbidden(message)
            | Self::BadSelector(message)
            | Self::Other(message) => message,
        }
    }
}

/// Decides which failures to log: each once per outage, and not once per attempt.
///
/// An outage ends with progress. A watch without events shows none, so a time without failures that is longer than any
/// attempt counts as progress too.
#[derive(Debug)]
pub struct FailureLog {
    longest_attempt: Duration,
    current: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    began: Instant,
    last_failure: Instant,
    failures: u32,
    logged: Option<WatchError>,
}

impl FailureLog {
    /// The log of a stream with at most this delay between two attempts.
    #[must_use]
    pub fn with_delays_up_to(longest_delay: Duration) -> Self {
        Self {
            longest_attempt: longest_delay + CONNECT_TIMEOUT + READ_TIMEOUT,
            current: None,
        }
    }

    /// Whether to log this failure.
    pub fn should_log(&mut self, error: &WatchError, now: Instant) -> bool {
        let outage = self
            .current
            .take()
            .filter(|outage| now - outage.last_failure <= self.longest_attempt);
        let outage = self.current.insert(outage.unwrap_or(Outage {
            began: now,
            last_failure: now,
            failures: 0,
            logged: None,
        }));
        outage.last_failure = now;
        outage.failures += 1;
        let is_serious = match error {
            WatchError::NotFound
            | WatchError::Unauthorized(_)
            | WatchError::Forbidden(_)
            | WatchError::BadSelector(_) => true,
            WatchError::Expired => false,
            WatchError::Other(_) => outage.failures >= FAILURES_TO_LOG || now - outage.began >= TIME_TO_LOG,
        };
        let is_new = is_serious && outage.logged.as_ref() != Some(error);
        if is_new {
            outage.logged = Some(error.clone());
        }
        is_new
    }

    /// The watch makes progress. Returns whether a failure was logged before.
    pub fn recovered(&mut self) -> bool {
        self.current.take().is_some_and(|outage| outage.logged.is_some())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DELAY: Duration = Duration::from_secs(10);

    fn failure_log() -> FailureLog {
        FailureLog::with_delays_up_to(DELAY)
    }

    #[test]
    fn a_serious_failure_is_logged_once_per_outage() {
        let mut log = failure_log();
        let start = Instant::now();
        let error = WatchError::NotFound;
        assert!(log.should_log(&error, start));
        assert!(!log.should_log(&error, start + DELAY));
        let later = start + DELAY + DELAY + READ_TIMEOUT;
        assert!(!log.should_log(&error, later), "an attempt can take that long");
        assert!(
            log.should_log(&error, later + Duration::from_mins(3)),
            "no attempt takes that long: there was progress in between"
        );
    }

    #[test]
    fn progress_ends_an_outage() {
        let mut log = failure_log();
        let now = Instant::now();
        assert!(log.should_log(&WatchError::NotFound, now));
        assert!(log.recovered(), "the recovery is logged too");
        assert!(!log.recovered());
        assert!(log.should_log(&WatchError::NotFound, now));
    }

    #[test]
    fn another_failure_is_logged() {
        let mut log = failure_log();
        let now = Instant::now();
        assert!(log.should_log(&WatchError::NotFound, now));
        assert!(log.should_log(&WatchError::Forbidden("no".into()), now));
    }

    /// The time of each of five failures, in seconds, and which of them are logged.
    #[rstest]
    #[case::refused_at_once([0, 1, 2, 4, 8], [false, false, true, false, false])]
    #[case::never_answered([0, 130, 260, 390, 520], [false, true, false, false, false])]
    #[case::once_in_a_while([0, 300, 600, 900, 1200], [false; 5])]
    fn a_broken_connection_is_logged_when_it_keeps_breaking(#[case] at: [u64; 5], #[case] expected: [bool; 5]) {
        let mut log = failure_log();
        let start = Instant::now();
        let error = WatchError::Other("reset".into());
        let logged = at.map(|second| log.should_log(&error, start + Duration::from_secs(second)));
        assert_eq!(logged, expected);
    }

    #[test]
    fn an_expired_watch_is_not_logged() {
        assert!(!failure_log().should_log(&WatchError::Expired, Instant::now()));
    }
}
