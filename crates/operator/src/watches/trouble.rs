//! What a failed watch means, in words, and which failures are worth a log line.

use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher::Error;
use tokio::time::Instant;

use crate::error::{chain, describe};

/// Failures further apart than this belong to different incidents.
const SAME_INCIDENT: Duration = Duration::from_mins(1);
/// A connection that breaks once in a while is normal; from this many failures in a row on, it is worth telling.
const WORTH_TELLING: u32 = 3;

/// Why a watch makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The kind does not exist in the cluster.
    NoDefinition,
    /// The API server does not let us.
    Forbidden(String),
    /// The API server refuses the label selector.
    BadSelector(String),
    /// The position in the stream is too old; the stream starts over with a list.
    Expired,
    /// Anything else, most likely on the way to the API server.
    Other(String),
}

impl Trouble {
    /// Reads the error of a watch stream.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        match error {
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status))
            | Error::WatchFailed(kube::Error::Api(status))
            | Error::WatchError(status) => Self::of_status(status),
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                Self::Other(describe(error))
            }
            Error::NoResourceVersion => Self::Other(chain(error)),
        }
    }

    fn of_status(status: &Status) -> Self {
        match status.code {
            404 => Self::NoDefinition,
            403 => Self::Forbidden(status.message.clone()),
            400 => Self::BadSelector(status.message.clone()),
            410 => Self::Expired,
            code => Self::Other(format!("{} ({code})", status.message.trim_end())),
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::NoDefinition => "the CRD is not installed",
            Self::Expired => "the watch fell behind and starts over with a list",
            Self::Forbidden(message) | Self::BadSelector(message) | Self::Other(message) => message,
        }
    }

    /// What is wrong and what to do about it, to follow the name of the kind and a colon.
    #[must_use]
    pub fn explain(&self) -> String {
        let cause = self.cause();
        match self {
            Self::NoDefinition => {
                format!("{cause}: run `firebolt-operator crds | kubectl apply --server-side -f -`")
            }
            Self::Forbidden(_) => format!(
                "{cause}: grant get, list and watch to the operator's service account (deploy/rbac.yaml does), or \
                 narrow the scope with --namespaces"
            ),
            Self::BadSelector(_) => format!("{cause}: check --watch-label-selector"),
            Self::Expired => cause.to_owned(),
            Self::Other(_) => format!("{cause}: check that the API server is reachable; still trying"),
        }
    }
}

/// Remembers what was told, so that a failure is logged once per incident and not once per attempt.
#[derive(Debug, Default)]
pub struct Incidents {
    last: Option<(Trouble, Instant)>,
    in_a_row: u32,
    told: Option<Trouble>,
}

impl Incidents {
    /// Takes in a failure; true if it should be logged.
    pub fn is_news(&mut self, trouble: &Trouble, now: Instant) -> bool {
        if self.last.as_ref().is_some_and(|(_, at)| now - *at > SAME_INCIDENT) {
            self.end();
        }
        self.last = Some((trouble.clone(), now));
        self.in_a_row += 1;
        let is_grave = match trouble {
            Trouble::NoDefinition | Trouble::Forbidden(_) | Trouble::BadSelector(_) => true,
            Trouble::Expired => false,
            Trouble::Other(_) => self.in_a_row >= WORTH_TELLING,
        };
        let is_news = is_grave && self.told.as_ref() != Some(trouble);
        if is_news {
            self.told = Some(trouble.clone());
        }
        is_news
    }

    /// The watch makes progress. Returns true if a failure had been logged before.
    pub fn end(&mut self) -> bool {
        let Self { told, .. } = std::mem::take(self);
        told.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Error {
        let mut status = Status::failure("no", "Reason");
        status.code = code;
        Error::WatchError(Box::new(status))
    }

    #[test]
    fn the_answer_of_the_api_server_leads_to_the_remedy() {
        for (code, expected) in [
            (404, "firebolt-operator crds | kubectl apply --server-side -f -"),
            (403, "grant get, list and watch"),
            (400, "check --watch-label-selector"),
            (500, "check that the API server is reachable"),
        ] {
            let text = Trouble::of(&status(code)).explain();
            assert!(text.contains(expected), "{code}: {text}");
        }
    }

    #[test]
    fn a_grave_failure_is_told_once_per_incident() {
        let mut incidents = Incidents::default();
        let start = Instant::now();
        let trouble = Trouble::NoDefinition;
        assert!(incidents.is_news(&trouble, start));
        assert!(!incidents.is_news(&trouble, start + Duration::from_secs(10)));
        assert!(!incidents.is_news(&trouble, start + SAME_INCIDENT));
        assert!(
            incidents.is_news(&trouble, start + Duration::from_secs(121)),
            "a new incident"
        );
    }

    #[test]
    fn another_failure_is_news() {
        let mut incidents = Incidents::default();
        let now = Instant::now();
        assert!(incidents.is_news(&Trouble::NoDefinition, now));
        assert!(incidents.is_news(&Trouble::Forbidden("no".into()), now));
    }

    #[test]
    fn a_connection_that_breaks_is_told_at_the_third_time_in_a_row() {
        let mut incidents = Incidents::default();
        let now = Instant::now();
        let told: Vec<_> = (0..5)
            .map(|_| incidents.is_news(&Trouble::Other("reset".into()), now))
            .collect();
        assert_eq!(told, [false, false, true, false, false]);
        assert!(incidents.end(), "the end of it is worth a line too");
        assert!(!incidents.end());
        assert!(!incidents.is_news(&Trouble::Expired, now));
    }
}
