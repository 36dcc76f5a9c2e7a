//! Logs an error that persists once when it begins and once when it is over: not for each attempt, and not for each
//! engine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::error::ErrorKind;

/// The minimum time between two lines about the same kind of error.
const INTERVAL: Duration = Duration::from_mins(1);

/// The errors of an operation that is repeated.
#[derive(Debug)]
pub(super) struct ErrorLog {
    operation: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The kind of the last error. None if the last attempt succeeded.
    last: Option<ErrorKind>,
    /// When each kind was last logged.
    logged: HashMap<ErrorKind, Instant>,
    /// Whether an error was logged, and not yet that it is over.
    open: bool,
}

impl ErrorLog {
    pub(super) fn new(operation: &'static str) -> Self {
        Self {
            operation,
            state: Mutex::default(),
        }
    }

    /// An attempt failed.
    pub(super) fn failed(&self, kind: ErrorKind, text: &str) {
        if self.state().failed(kind, Instant::now()) {
            warn!("{text}");
        }
    }

    /// An attempt succeeded.
    pub(super) fn succeeded(&self) {
        if self.state().succeeded() {
            info!("recovered: {}", self.operation);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether to log the error.
    fn failed(&mut self, kind: ErrorKind, now: Instant) -> bool {
        let persists = self.last.replace(kind) == Some(kind);
        let recent = self.logged.get(&kind).is_some_and(|logged| now < *logged + INTERVAL);
        if persists && self.open || recent {
            return false;
        }
        self.logged.insert(kind, now);
        self.open = true;
        true
    }

    /// Returns whether to log that the error is over.
    fn succeeded(&mut self) -> bool {
        self.last = None;
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_when_it_begins_when_it_changes_and_when_it_is_over() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(!state.succeeded());
        assert!(state.failed(ErrorKind::Timeout, now));
        assert!(
            !state.failed(ErrorKind::Timeout, now + 2 * INTERVAL),
            "it is still the same"
        );
        assert!(state.failed(ErrorKind::Status(403), now));
        assert!(state.succeeded());
        assert!(!state.succeeded());
    }

    #[test]
    fn an_error_that_comes_and_goes_is_logged_once_a_minute() {
        let (mut state, start) = (State::default(), Instant::now());
        let mut lines = 0;
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            let (one, other) = (ErrorKind::Timeout, ErrorKind::Status(503));
            lines += usize::from(state.failed(if second % 2 == 0 { one } else { other }, now));
            lines += usize::from(second % 3 == 0 && state.succeeded());
        }
        // Two kinds and that they are over, each at most once a minute.
        assert!((5..=20).contains(&lines), "{lines}");
    }
}
