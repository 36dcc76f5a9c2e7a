//! Why a reconcile failed, and when to retry.

use std::time::Duration;

use firebolt_process::error::shortened;
use kube::core::Status;

use crate::error::describe;
use crate::key::ObjectKey;

/// The longest message of the API server that is reported, in characters.
const LONGEST_MESSAGE: usize = 1000;

/// A reconcile that failed. What it has written so far is a safe place to stop.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A read failed. It says nothing about whether the object exists.
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
    /// A write failed. It may or may not have been stored.
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
    /// No response in time. A write may or may not have been stored.
    #[error("{verb} {kind} {object}: no response from the API server within {limit:?}")]
    TimedOut {
        /// What was attempted.
        verb: &'static str,
        /// On which kind.
        kind: String,
        /// Which object.
        object: ObjectKey,
        /// The timeout.
        limit: Duration,
    },
    /// The object was changed after it was read, so the plan no longer applies.
    #[error("{object} has changed since it was read")]
    Conflict {
        /// Which object.
        object: ObjectKey,
    },
    /// This process is not the leader, so it must not write.
    #[error("this process is not the leader")]
    NotLeader,
}

/// What an error means for the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// An object was changed in between; retry soon.
    Conflict,
    /// The API server rejects the object, and will until the object or a policy is changed. Contains the first part of its
    /// message, without the period at the end.
    Rejected(String),
    /// Anything else; retry later.
    Transient {
        /// How long the API server asks to wait.
        retry_after: Option<Duration>,
    },
    /// This process is not the leader; it must not write.
    NotLeader,
}

/// A write that the API server rejects, and will until the object or a policy is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedWrite<'a> {
    /// What was attempted.
    pub verb: &'static str,
    /// On which kind.
    pub kind: &'a str,
    /// Which object.
    pub object: &'a ObjectKey,
    /// The first part of the message of the API server, without the period at the end.
    pub message: String,
}

impl ReconcileError {
    /// A failed read of an object, or of objects that it owns.
    #[must_use]
    pub fn read(verb: &'static str, kind: &str, object: &ObjectKey, source: kube::Error) -> Self {
        Self::Read {
            verb,
            kind: kind.to_owned(),
            object: object.clone(),
            source: Box::new(source),
        }
    }

    /// Verb, kind and object of the failed request.
    #[must_use]
    pub fn attempt(&self) -> String {
        match self {
            Self::Read { verb, kind, object, .. } => format!("{verb} {kind} {object}"),
            Self::Write { verb, kind, object, .. } | Self::TimedOut { verb, kind, object, .. } => {
                format!("{verb} {kind} {object}")
            }
            Self::Conflict { object } => format!("rely on the version that was read of {object}"),
            Self::NotLeader => "write while another process is the leader".to_owned(),
        }
    }

    /// The message of the API server, if it rejects the request and will until a user acts.
    #[must_use]
    pub fn rejection(&self) -> Option<String> {
        match (self, self.class()) {
            (Self::Read { source, .. }, _) => match &**source {
                kube::Error::Api(status) if status.code == 403 => Some(message(status)),
                _ => None,
            },
            (_, ErrorClass::Rejected(message)) => Some(message),
            (_, ErrorClass::Conflict | ErrorClass::Transient { .. } | ErrorClass::NotLeader) => None,
        }
    }

    /// The write, if the API server rejects it.
    #[must_use]
    pub fn rejected_write(&self) -> Option<RejectedWrite<'_>> {
        match (self, self.class()) {
            (Self::Write { verb, kind, object, .. }, ErrorClass::Rejected(message)) => Some(RejectedWrite {
                verb,
                kind,
                object,
                message,
            }),
            _ => None,
        }
    }

    /// What the error means for the next attempt.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Conflict { .. } => ErrorClass::Conflict,
            Self::NotLeader => ErrorClass::NotLeader,
            Self::TimedOut { .. } => ErrorClass::Transient { retry_after: None },
            Self::Read { source, .. } => ErrorClass::Transient {
                retry_after: retry_after(source),
            },
            Self::Write { source, .. } => match &**source {
                // Also if an object to create already exists, or an object to change does not.
                kube::Error::Api(status) if matches!(status.code, 404 | 409) || is_another_object(status) => {
                    ErrorClass::Conflict
                }
                kube::Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => {
                    ErrorClass::Rejected(message(status))
                }
                source => ErrorClass::Transient {
                    retry_after: retry_after(source),
                },
            },
        }
    }
}

/// What an error response says, to be part of a sentence.
fn message(status: &Status) -> String {
    shortened(status.message.trim_end().trim_end_matches('.'), LONGEST_MESSAGE)
}

/// How the API server responds if an object is applied with the UID of another one.
fn is_another_object(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let requested = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    // An API server that sheds load sends `Retry-After: 1`, a header that the client does not pass on.
    let seconds = if status.code == 429 {
        requested.max(1)
    } else {
        requested
    };
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

    fn class(status: Status) -> ErrorClass {
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let object = ObjectKey::new("n", "a");
        ReconcileError::Write {
            verb: "apply",
            kind: "Service".to_owned(),
            object,
            source,
        }
        .class()
    }

    fn later(seconds: u64) -> ErrorClass {
        let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds));
        ErrorClass::Transient { retry_after }
    }

    #[rstest]
    #[case(404, ErrorClass::Conflict)]
    #[case(409, ErrorClass::Conflict)]
    #[case(422, ErrorClass::Rejected("no such luck".to_owned()))]
    #[case(403, ErrorClass::Rejected("no such luck".to_owned()))]
    #[case(413, ErrorClass::Rejected("no such luck".to_owned()))]
    #[case(429, later(1))]
    #[case(500, later(0))]
    #[case(503, later(0))]
    fn the_status_code_decides_about_the_next_attempt(#[case] code: u16, #[case] expected: ErrorClass) {
        assert_eq!(class(status(code, None)), expected);
    }

    #[test]
    fn retry_after_of_the_api_server_is_respected() {
        let details = serde_json::from_value(json!({ "retryAfterSeconds": 7 })).unwrap();
        assert_eq!(class(status(503, details)), later(7));
    }

    #[test]
    fn another_object_of_the_same_name_is_a_conflict() {
        let details = serde_json::from_value(json!({ "causes": [{ "field": "metadata.uid" }] })).unwrap();
        assert_eq!(class(status(422, details)), ErrorClass::Conflict);
    }

    #[test]
    fn an_error_names_verb_kind_and_object() {
        let source = Box::new(kube::Error::Api(Box::new(status(500, None))));
        let error = ReconcileError::Write {
            verb: "apply",
            kind: "Service".to_owned(),
            object: ObjectKey::new("n", "a-service"),
            source,
        };
        assert_eq!(error.to_string(), "apply Service n/a-service: no such luck (500)");
    }
}
