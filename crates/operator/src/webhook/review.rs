//! The wire format: an `AdmissionReview` with a request comes in, one with a response goes out.
//!
//! Objects are taken as raw JSON first, so that a request whose object cannot be parsed is still answered, with the reason.

use std::fmt::Write as _;

use firebolt_api::GROUP;
use firebolt_api::name::is_dns_label;
use firebolt_core::admit::{Violation, ViolationKind};
use firebolt_process::error::shortened;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::settings::is_dns_subdomain;

/// Limit on the violations in one response. Each has a text of bounded length; the rest is counted.
const MAX_CAUSES: usize = 50;
/// Limit on the length of `uid`, which is repeated in the response: the size of a response must not depend on the request.
const MAX_UID_LENGTH: usize = 253;
/// Limit on the warnings in one response.
const MAX_WARNINGS: usize = 10;
/// Limit on the text of one violation: users choose the keys in its path.
const MAX_CAUSE_LENGTH: usize = 1000;

/// What the API server sends.
#[derive(Debug, Deserialize)]
pub(super) struct AdmissionReview {
    pub(super) request: AdmissionRequest,
}

/// The request in an `AdmissionReview`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    /// Identifies the request; the response repeats it.
    pub(super) uid: String,
    pub(super) operation: Operation,
    /// The name of the object. Empty if the API server generates it.
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    /// The object as it would be stored. None on deletion.
    #[serde(default, deserialize_with = "non_null")]
    pub(super) object: Option<Box<RawValue>>,
    /// The object as it is stored. None on creation.
    #[serde(default, deserialize_with = "non_null")]
    pub(super) old_object: Option<Box<RawValue>>,
}

impl AdmissionRequest {
    /// Whether the names are valid. Any client in the cluster network can send requests, and the names go into requests
    /// to the API server and into log lines.
    pub(super) fn is_well_formed(&self) -> bool {
        let has_valid_name = self.name.is_empty() || is_dns_subdomain(&self.name);
        has_valid_name && is_dns_label(&self.namespace) && self.uid.len() <= MAX_UID_LENGTH
    }
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    /// Our kinds have no subresource to connect to.
    Connect,
}

impl Operation {
    /// The value of the metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Connect => "connect",
        }
    }
}

/// Reads `null` as none.
fn non_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    let value = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(value.filter(|value| value.get() != "null"))
}

/// The result of validating a request.
#[derive(Debug, Default)]
pub(super) struct AdmissionResponse {
    /// Why the request is denied; it is allowed if there are none.
    pub(super) violations: Vec<Violation>,
    /// Warnings that the client prints, whether the request is allowed or not.
    pub(super) warnings: Vec<String>,
    /// Changes to the object, as a JSON patch.
    pub(super) patch: Vec<Value>,
}

impl AdmissionResponse {
    /// Allows the request, without warnings or changes.
    pub(super) fn allowed() -> Self {
        Self::default()
    }

    /// Denies the request for these violations, or allows it if there are none.
    pub(super) fn from_violations(violations: Vec<Violation>) -> Self {
        Self {
            violations,
            ..Self::default()
        }
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// The response in an `AdmissionReview`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody<'a> {
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

/// The `AdmissionReview` that answers a request for an object of this kind.
pub(super) fn review(kind: &str, request: &AdmissionRequest, response: &AdmissionResponse) -> Value {
    let has_patch = response.is_allowed() && !response.patch.is_empty();
    let patch = || serde_json::to_vec(&response.patch).expect("a patch is plain JSON");
    serialize(&ResponseBody {
        uid: &request.uid,
        allowed: response.is_allowed(),
        status: (!response.is_allowed()).then(|| denial(kind, request, &response.violations)),
        warnings: &response.warnings[..response.warnings.len().min(MAX_WARNINGS)],
        patch_type: has_patch.then_some("JSONPatch"),
        patch: has_patch.then(|| k8s_openapi::ByteString(patch())),
    })
}

/// The `AdmissionReview` for a request that could not be validated. The request is denied.
pub(super) fn unavailable(uid: &str, message: &str) -> Value {
    let status = Status {
        code: Some(503),
        reason: Some("ServiceUnavailable".to_owned()),
        status: Some("Failure".to_owned()),
        message: Some(shortened(message, MAX_CAUSE_LENGTH)),
        ..Status::default()
    };
    serialize(&ResponseBody {
        uid,
        allowed: false,
        status: Some(status),
        warnings: &[],
        patch_type: None,
        patch: None,
    })
}

fn serialize(response: &ResponseBody) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

/// The status of a denied request, with all violations: as text, and as a list of causes that `kubectl` prints one by one.
/// A denied deletion is `Forbidden`, everything else `Invalid`.
fn denial(kind: &str, request: &AdmissionRequest, violations: &[Violation]) -> Status {
    let causes: Vec<StatusCause> = violations.iter().take(MAX_CAUSES).map(cause).collect();
    let mut message = String::new();
    for cause in &causes {
        let separator = if message.is_empty() { "" } else { "\n" };
        let (field, text) = (cause.field.as_deref().unwrap_or_default(), cause.message.as_deref());
        write!(message, "{separator}{field}: {}", text.unwrap_or_default()).expect("writing to a string does not fail");
    }
    if violations.len() > MAX_CAUSES {
        let left = violations.len() - MAX_CAUSES;
        write!(message, "\n… and {left} more").expect("writing to a string does not fail");
    }
    let (code, reason) = match request.operation {
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
            kind: Some(kind.to_owned()),
            name: Some(request.name.clone()),
            causes: Some(causes),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }
}

fn cause(violation: &Violation) -> StatusCause {
    let reason = match violation.kind {
        ViolationKind::Forbidden => "FieldValueForbidden",
        ViolationKind::Duplicate => "FieldValueDuplicate",
        ViolationKind::Invalid => "FieldValueInvalid",
        ViolationKind::Required => "FieldValueRequired",
        ViolationKind::NotFound => "FieldValueNotFound",
    };
    let text = format!("{}: {}", violation.kind, violation.message);
    StatusCause {
        reason: Some(reason.to_owned()),
        field: Some(shortened(&violation.path, MAX_CAUSE_LENGTH)),
        message: Some(shortened(&text, MAX_CAUSE_LENGTH)),
    }
}
