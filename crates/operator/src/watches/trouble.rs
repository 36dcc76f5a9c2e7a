//! What a failed watch means, in words, and which failures are worth a log line.

use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher::Error;
use tokio::time::Instant;

use crate::connect::LONGEST_SILENCE;
use crate::error::{chain, describe};
use crate::settings::LabelSelector;

/// A connection that breaks once in a while is normal; from this many failures in a row on, it is worth telling.
const WORTH_TELLING: u32 = 3;
/// Failures that go on for this long are worth telling however few: an API server that takes connections and never
/// answers makes each attempt last for minutes.
const WORTH_TELLING_AFTER: Duration = Duration::from_mins(1);
/// What an attempt may take beside silence: to connect, and whatever a busy machine adds.
const CONNECTING: Duration = Duration::from_secs(40);

/// Why a watch makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The kind does not exist in the cluster.
    NoDefinition,
    /// The API server does not know us.
    Unauthorized(String),
    /// The API server does not let us.
    Forbidden(String),
    /// The API server refuses the request, of which the label selector is the one part that a user writes.
    BadSelector(String),
    /// The position in the stream is too old; the stream starts over with a list.
    Expired,
    /// Anything else, most likely on the way to the API server.
    Other(String),
}

impl Trouble {
    /// Reads the error of a stream that watches with this selector.
    #[must_use]
    pub fn of(error: &Error, selector: &LabelSelector) -> Self {
        match error {
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status))
            | Error::WatchFailed(kube::Error::Api(status))
            | Error::WatchError(status) => Self::of_status(status, selector),
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                Self::Other(describe(error))
            }
            Error::NoResourceVersion => Self::Other(chain(error)),
        }
    }

    fn of_status(status: &Status, selector: &LabelSelector) -> Self {
        match status.code {
            404 => Self::NoDefinition,
            403 => Self::Forbidden(status.message.clone()),
            401 => Self::Unauthorized(status.message.clone()),
            400 if !selector.selects_everything() => Self::BadSelector(status.message.clone()),
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
            Self::Unauthorized(message)
            | Self::Forbidden(message)
            | Self::BadSelector(message)
            | Self::Other(message) => message,
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
            Self::Unauthorized(_) => {
                format!("{cause}: check the credentials in the kubeconfig, or the service account of the pod")
            }
            Self::Forbidden(_) => format!(
                "{cause}: grant get, list and watch to the operator's service account (deploy/rbac.yaml does), or \
                 narrow the scope with --namespaces"
            ),
            Self::BadSelector(_) => format!("{cause}: check --watch-label-selector"),
            Self::Expired => cause.to_owned(),
            Self::Other(_) => format!("{cause}: check that the API server is reachable and healthy; still trying"),
        }
    }
}

/// Remembers what was told, so that a failure is logged once per incident and not once per attempt.
///
/// An incident ends with progress. A watch on which nothing happens shows none, so a time without failures that no
/// single attempt can fill counts as progress too.
#[derive(Debug)]
pub struct Incidents {
    longest_attempt: Duration,
    current: Option<Incident>,
}

#[derive(Debug)]
struct Incident {
    began: Instant,
    last_failure: Instant,
    failures: u32,
    told: Option<Trouble>,
}

impl Incidents {
    /// Those of a stream that pauses for at most `longest_pause` between two attempts.
    #[must_use]
    pub fn with_pauses_up_to(longest_pause: Duration) -> Self {
        Self {
            longest_attempt: longest_pause + CONNECTING + LONGEST_SILENCE,
            current: None,
        }
    }

    /// Takes in a failure; true if it should be logged.
    pub fn is_news(&mut self, trouble: &Trouble, now: Instant) -> bool {
        let incident = self
            .current
            .take()
            .filter(|incident| now - incident.last_failure <= self.longest_attempt);
        let incident = self.current.insert(incident.unwrap_or(Incident {
            began: now,
            last_failure: now,
            failures: 0,
            told: None,
        }));
        incident.last_failure = now;
        incident.failures += 1;
        let is_grave = match trouble {
            Trouble::NoDefinition | Trouble::Unauthorized(_) | Trouble::Forbidden(_) | Trouble::BadSelector(_) => true,
            Trouble::Expired => false,
            Trouble::Other(_) => incident.failures >= WORTH_TELLING || now - incident.began >= WORTH_TELLING_AFTER,
        };
        let is_news = is_grave && incident.told.as_ref() != Some(trouble);
        if is_news {
            incident.told = Some(trouble.clone());
        }
        is_news
    }

    /// The watch makes progress. Returns true if a failure had been logged before.
    pub fn end(&mut self) -> bool {
        self.current.take().is_some_and(|incident| incident.told.is_some())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn incidents() -> Incidents {
        Incidents::with_pauses_up_to(PAUSE)
    }

    fn explain(code: u16, selector: &str) -> String {
        let mut status = Status::failure("no", "Reason");
        status.code = code;
        Trouble::of(&Error::WatchError(Box::new(status)), &selector.parse().unwrap()).explain()
    }

    #[rstest]
    #[case(404, "", "firebolt-operator crds | kubectl apply --server-side -f -")]
    #[case(403, "", "grant get, list and watch")]
    #[case(
        401,
        "",
        "check the credentials in the kubeconfig, or the service account of the pod"
    )]
    #[case(400, "team=a", "check --watch-label-selector")]
    #[case::nobody_wrote_a_selector(400, "", "no (400): check that the API server is reachable and healthy")]
    #[case(500, "", "check that the API server is reachable and healthy")]
    fn the_answer_of_the_api_server_leads_to_the_remedy(
        #[case] code: u16,
        #[case] selector: &str,
        #[case] expected: &str,
    ) {
        let text = explain(code, selector);
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_grave_failure_is_told_once_per_incident() {
        let mut incidents = incidents();
        let start = Instant::now();
        let trouble = Trouble::NoDefinition;
        assert!(incidents.is_news(&trouble, start));
        assert!(!incidents.is_news(&trouble, start + PAUSE));
        let later = start + PAUSE + PAUSE + LONGEST_SILENCE;
        assert!(!incidents.is_news(&trouble, later), "an attempt can take that long");
        assert!(
            incidents.is_news(&trouble, later + Duration::from_mins(3)),
            "no attempt takes that long: it worked in between"
        );
    }

    #[test]
    fn progress_ends_an_incident() {
        let mut incidents = incidents();
        let now = Instant::now();
        assert!(incidents.is_news(&Trouble::NoDefinition, now));
        assert!(incidents.end(), "the end of it is worth a line too");
        assert!(!incidents.end());
        assert!(incidents.is_news(&Trouble::NoDefinition, now));
    }

    #[test]
    fn another_failure_is_news() {
        let mut incidents = incidents();
        let now = Instant::now();
        assert!(incidents.is_news(&Trouble::NoDefinition, now));
        assert!(incidents.is_news(&Trouble::Forbidden("no".into()), now));
    }

    /// When each of five failures comes, in seconds, and which of them are told.
    #[rstest]
    #[case::refused_at_once([0, 1, 2, 4, 8], [false, false, true, false, false])]
    #[case::never_answered([0, 130, 260, 390, 520], [false, true, false, false, false])]
    #[case::once_in_a_while([0, 300, 600, 900, 1200], [false; 5])]
    fn a_connection_that_breaks_is_told_when_it_keeps_breaking(#[case] at: [u64; 5], #[case] expected: [bool; 5]) {
        let mut incidents = incidents();
        let start = Instant::now();
        let trouble = Trouble::Other("reset".into());
        let told = at.map(|second| incidents.is_news(&trouble, start + Duration::from_secs(second)));
        assert_eq!(told, expected);
    }

    #[test]
    fn a_watch_that_fell_behind_is_not_worth_a_line() {
        assert!(!incidents().is_news(&Trouble::Expired, Instant::now()));
    }
}
