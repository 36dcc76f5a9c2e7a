//! Why a pass came to nothing, and what follows from it.

use std::time::Duration;

use kube::core::Status;

use crate::error::describe;
use crate::key::ObjectKey;

/// A pass that could not be finished. Whatever it has written so far is a safe place to stop.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A read failed, which is never taken for an absence.
    #[error("{verb} {kind} {object}: {}", describe(source))]
    Read {
        /// What was attempted.
        verb: &'static str,
        /// On which kind.
        kind: String,
        /// Which object, or whose objects.
        object: ObjectKey,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A write failed. It may have been stored or not.
    #[error("{verb} {kind} {object}: {}", describe(source))]
    Write {
        /// What was attempted.
        verb: &'static str,
        /// On which kind.
        kind: String,
        /// Which object.
        object: ObjectKey,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// No answer in time. A write may have been stored or not.
    #[error("{verb} {kind} {object}: no answer from the API server within {limit:?}")]
    TimedOut {
        /// What was attempted.
        verb: &'static str,
        /// On which kind.
        kind: String,
        /// Which object.
        object: ObjectKey,
        /// How long we waited.
        limit: Duration,
    },
    /// Somebody else wrote in between: the decision is void.
    #[error("{object} has changed since it was read")]
    Outdated {
        /// Which object.
        object: ObjectKey,
    },
    /// This process no longer leads, so it must not write.
    #[error("this process no longer leads")]
    TermOver,
}

/// What an error is, as far as the next attempt is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nature {
    /// The world moved on; look again soon.
    Outdated,
    /// The API server will not take what was written as long as it is what it is. Its own words.
    Refused(String),
    /// Anything else: try again later, no sooner than told.
    Transient {
        /// What the API server asks for.
        not_before: Option<Duration>,
    },
    /// Nothing more may be done by this process.
    TermOver,
}

impl PassError {
    /// A read of an object, or of what belongs to it, that failed.
    #[must_use]
    pub fn read(verb: &'static str, kind: &str, object: &ObjectKey, source: kube::Error) -> Self {
        Self::Read {
            verb,
            kind: kind.to_owned(),
            object: object.clone(),
            source: Box::new(source),
        }
    }

    /// What was attempted on what, in words.
    #[must_use]
    pub fn attempt(&self) -> String {
        match self {
            Self::Read { verb, kind, object, .. } => format!("{verb} {kind} {object}"),
            Self::Write { verb, kind, object, .. } | Self::TimedOut { verb, kind, object, .. } => {
                format!("{verb} {kind} {object}")
            }
            Self::Outdated { object } => format!("rely on what was read of {object}"),
            Self::TermOver => "write while another process leads".to_owned(),
        }
    }

    /// What the API server said, if it will not let us do what was attempted as long as nobody does anything about it.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match (self, self.nature()) {
            (Self::Read { source, .. }, _) => match &**source {
                kube::Error::Api(status) if status.code == 403 => Some(status.message.clone()),
                _ => None,
            },
            (_, Nature::Refused(message)) => Some(message),
            (_, Nature::Outdated | Nature::Transient { .. } | Nature::TermOver) => None,
        }
    }

    /// What follows from it.
    #[must_use]
    pub fn nature(&self) -> Nature {
        match self {
            Self::Outdated { .. } => Nature::Outdated,
            Self::TermOver => Nature::TermOver,
            Self::TimedOut { .. } => Nature::Transient { not_before: None },
            Self::Read { source, .. } => Nature::Transient {
                not_before: retry_after(source),
            },
            Self::Write { source, .. } => match &**source {
                // Also for an object that was to be created and is there, or to be changed and is gone.
                kube::Error::Api(status) if matches!(status.code, 404 | 409) || is_another_object(status) => {
                    Nature::Outdated
                }
                kube::Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => {
                    Nature::Refused(status.message.trim_end().to_owned())
                }
                source => Nature::Transient {
                    not_before: retry_after(source),
                },
            },
        }
    }
}

/// What was applied under the UID of one object found another: that is how the API server puts it.
fn is_another_object(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let told = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    // An API server that sheds load says how long in a header, always one second, that the client does not pass on.
    let seconds = if status.code == 429 { told.max(1) } else { told };
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn status(code: u16, details: Option<StatusDetails>) -> Status {
        Status {
            code,
            details,
            ..Status::failure("no such luck", "Reason")
        }
    }

    fn nature(status: Status) -> Nature {
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let object = ObjectKey::new("n", "a");
        PassError::Write {
            verb: "apply",
            kind: "Service".to_owned(),
            object,
            source,
        }
        .nature()
    }

    fn later(seconds: u64) -> Nature {
        let not_before = (seconds > 0).then(|| Duration::from_secs(seconds));
        Nature::Transient { not_before }
    }

    #[rstest]
    #[case(404, Nature::Outdated)]
    #[case(409, Nature::Outdated)]
    #[case(422, Nature::Refused("no such luck".to_owned()))]
    #[case(403, Nature::Refused("no such luck".to_owned()))]
    #[case(413, Nature::Refused("no such luck".to_owned()))]
    #[case(429, later(1))]
    #[case(500, later(0))]
    #[case(503, later(0))]
    fn the_answer_says_what_the_next_attempt_is_worth(#[case] code: u16, #[case] expected: Nature) {
        assert_eq!(nature(status(code, None)), expected);
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        let details = serde_json::from_value(json!({ "retryAfterSeconds": 7 })).unwrap();
        assert_eq!(nature(status(503, details)), later(7));
    }

    #[test]
    fn another_object_under_the_name_is_no_refusal() {
        let details = serde_json::from_value(json!({ "causes": [{ "field": "metadata.uid" }] })).unwrap();
        assert_eq!(nature(status(422, details)), Nature::Outdated);
    }

    #[test]
    fn an_error_names_what_was_attempted_on_what() {
        let source = Box::new(kube::Error::Api(Box::new(status(500, None))));
        let error = PassError::Write {
            verb: "apply",
            kind: "Service".to_owned(),
            object: ObjectKey::new("n", "a-service"),
            source,
        };
        assert_eq!(error.to_string(), "apply Service n/a-service: no such luck (500)");
    }
}
