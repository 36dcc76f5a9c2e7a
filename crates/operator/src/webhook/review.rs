//! The conversation with the API server: an `AdmissionReview` comes in, another goes out.
//!
//! Objects are taken as text first, so that a request whose object cannot be read is still answered, with its reason.

use std::fmt::Write as _;

use firebolt_api::GROUP;
use firebolt_core::admit::{Kind, Violation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::shortened;
use crate::settings::{is_dns_label, is_dns_subdomain};

/// The most violations that are told at once. Each has a text of bounded length, and what is not told is counted.
const MOST_CAUSES: usize = 50;
/// The most that ties an answer to its question, as much as any name has. It stands in answers, which must not grow with
/// what is sent.
const LONGEST_UID: usize = 253;
/// The most warnings that are told at once.
const MOST_WARNINGS: usize = 10;
/// The most that is told of one violation: users choose the keys in its path.
const LONGEST_CAUSE: usize = 1000;

/// What the API server sends.
#[derive(Debug, Deserialize)]
pub struct Review {
    /// Its question. The answer, which has the same type, has none.
    pub request: Request,
}

/// What somebody wants to do to an object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Ties the answer to the question.
    pub uid: String,
    /// What is to be done.
    pub operation: Operation,
    /// The name of the object. Empty if the API server has yet to choose it.
    #[serde(default)]
    pub name: String,
    /// The namespace of the object.
    #[serde(default)]
    pub namespace: String,
    /// The object as it would be stored. None when it is deleted.
    #[serde(default, deserialize_with = "present")]
    pub object: Option<Box<RawValue>>,
    /// The object as it is stored. None when it is created.
    #[serde(default, deserialize_with = "present")]
    pub old_object: Option<Box<RawValue>>,
}

impl Request {
    /// Whether the object is one that can be: names come from strangers, and go into requests and messages.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let is_named = self.name.is_empty() || is_dns_subdomain(&self.name);
        is_named && is_dns_label(&self.namespace) && self.uid.len() <= LONGEST_UID
    }
}

/// What is to be done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is new.
    Create,
    /// It is changed.
    Update,
    /// It goes.
    Delete,
    /// Somebody connects to it, which objects of ours do not offer.
    Connect,
}

impl Operation {
    /// Its name, for metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Connect => "connect",
        }
    }
}

/// Reads `null` as nothing.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    let value = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(value.filter(|value| value.get() != "null"))
}

/// What the operator says to a request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why it is refused; accepted if empty.
    pub violations: Vec<Violation>,
    /// What is told to whoever asked, accepted or not.
    pub warnings: Vec<String>,
    /// What is changed about the object, as a JSON patch.
    pub patch: Vec<Value>,
}

impl Verdict {
    /// Nothing to say.
    #[must_use]
    pub fn accepted() -> Self {
        Self::default()
    }

    /// Refused for these reasons, or accepted if there are none.
    #[must_use]
    pub fn of(violations: Vec<Violation>) -> Self {
        Self {
            violations,
            ..Self::default()
        }
    }

    /// Whether it lets the request through.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.violations.is_empty()
    }
}

/// What the request is about, for the answer.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The kind of the object.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is to be done to it.
    pub operation: Operation,
}

/// The answer of the operator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<k8s_openapi::ByteString>,
}

/// The answer as the API server reads it.
#[must_use]
pub fn answer(uid: &str, subject: Subject, verdict: &Verdict) -> Value {
    let changes = verdict.accepts() && !verdict.patch.is_empty();
    let patch = || serde_json::to_vec(&verdict.patch).expect("a patch is plain JSON");
    let response = Response {
        uid,
        allowed: verdict.accepts(),
        status: (!verdict.accepts()).then(|| refusal(subject, &verdict.violations)),
        warnings: &verdict.warnings[..verdict.warnings.len().min(MOST_WARNINGS)],
        patch_type: changes.then_some("JSONPatch"),
        patch: changes.then(|| k8s_openapi::ByteString(patch())),
    };
    review(&response)
}

/// The answer to a question that could not be decided: nothing is let through unseen.
#[must_use]
pub fn no_answer(uid: &str, why: &str) -> Value {
    let status = Status {
        code: Some(503),
        reason: Some("ServiceUnavailable".to_owned()),
        status: Some("Failure".to_owned()),
        message: Some(shortened(why, LONGEST_CAUSE)),
        ..Status::default()
    };
    review(&Response {
        uid,
        allowed: false,
        status: Some(status),
        warnings: &[],
        patch_type: None,
        patch: None,
    })
}

fn review(response: &Response) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

/// A refusal with all its reasons: as a text, and as a list that `kubectl` shows one by one. What may not be deleted is
/// forbidden; anything else is not valid as it stands.
fn refusal(subject: Subject, violations: &[Violation]) -> Status {
    let causes: Vec<StatusCause> = violations.iter().take(MOST_CAUSES).map(cause).collect();
    let mut message = String::new();
    for cause in &causes {
        let separator = if message.is_empty() { "" } else { "\n" };
        let (field, text) = (cause.field.as_deref().unwrap_or_default(), cause.message.as_deref());
        write!(message, "{separator}{field}: {}", text.unwrap_or_default()).expect("writing to a string does not fail");
    }
    if violations.len() > MOST_CAUSES {
        let left = violations.len() - MOST_CAUSES;
        write!(message, "\n… and {left} more").expect("writing to a string does not fail");
    }
    let (code, reason) = match subject.operation {
        Operation::Delete | Operation::Connect => (403, "Forbidden"),
        Operation::Create | Operation::Update => (422, "Invalid"),
    };
    Status {
        code: Some(code),
        reason: Some(reason.to_owned()),
        status: Some("Failure".to_owned()),
        message: Some(message),
        details: Some(StatusDetails {
            group: Some(GROUP.to_owned()),
            kind: Some(subject.kind.to_owned()),
            name: Some(subject.name.to_owned()),
            causes: Some(causes),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }
}

fn cause(violation: &Violation) -> StatusCause {
    let reason = match violation.kind {
        Kind::Forbidden => "FieldValueForbidden",
        Kind::Duplicate => "FieldValueDuplicate",
        Kind::Invalid => "FieldValueInvalid",
        Kind::Required => "FieldValueRequired",
        Kind::NotFound => "FieldValueNotFound",
    };
    let text = format!("{}: {}", violation.kind, violation.message);
    StatusCause {
        reason: Some(reason.to_owned()),
        field: Some(shortened(&violation.path, LONGEST_CAUSE)),
        message: Some(shortened(&text, LONGEST_CAUSE)),
    }
}
