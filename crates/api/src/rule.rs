//! The validation rules that the API server evaluates (CEL), each with the message that the user reads.

use kube::core::{Rule, validate};
use schemars::Schema;

use crate::name::{MAX_ENGINE_CLASS_NAME, MAX_ENGINE_NAME, MAX_INSTANCE_NAME};

/// Adds a rule to a schema that is written by hand.
pub(crate) fn attach(schema: &mut Schema, rule: Rule) {
    validate(schema, rule).expect("a rule is plain JSON");
}

/// A rule whose expression or message is computed.
fn rule(expression: &str, message: &str) -> Rule {
    Rule::new(expression).message(message)
}

/// The name of an engine becomes part of Service, StatefulSet and pod names.
pub(crate) fn engine_name() -> Rule {
    service_name("an engine", MAX_ENGINE_NAME)
}

/// The name of an instance becomes part of Service and StatefulSet names.
pub(crate) fn instance_name() -> Rule {
    service_name("an instance", MAX_INSTANCE_NAME)
}

fn service_name(what: &str, limit: usize) -> Rule {
    rule(
        &format!("self.metadata.name.size() <= {limit} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"),
        &format!(
            "the name of {what} must have at most {limit} characters, start with a lower-case letter, end with a letter or \
             digit, and contain only lower-case letters, digits and hyphens, because Services and pods are named after it"
        ),
    )
    .field_path(".metadata.name")
}

/// The name of a class is used as a label value.
pub(crate) fn engine_class_name() -> Rule {
    rule(
        &format!("self.metadata.name.size() <= {MAX_ENGINE_CLASS_NAME}"),
        &format!("the name of an engine class must have at most {MAX_ENGINE_CLASS_NAME} characters"),
    )
    .field_path(".metadata.name")
}

/// Once set, the field may be neither changed nor removed. The rule belongs on the parent of the field: a rule on an
/// optional field itself is not evaluated when the field is removed. The empty string counts as unset.
pub(crate) fn immutable_once_set(field: &str) -> Rule {
    rule(
        &format!(
            "!has(oldSelf.{field}) || oldSelf.{field} == '' || (has(self.{field}) && self.{field} == oldSelf.{field})"
        ),
        &format!("{field} is immutable once set; restore the previous value, or create a new object"),
    )
    .field_path(format!(".{field}"))
}

/// The metadata service has a single writer.
pub(crate) fn metadata_replicas() -> Rule {
    rule(
        "!has(self.replicas) || self.replicas == 1",
        "replicas must be 1 or unset because the metadata service has a single writer",
    )
    .field_path(".replicas")
}

/// An engine has at most one storage backend.
pub(crate) fn one_storage_backend() -> Rule {
    rule(
        "[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.hostPath)].filter(named, named).size() <= 1",
        "persistentVolumeClaim, emptyDir and hostPath are mutually exclusive; set at most one of them",
    )
}

/// An active engine has at least as many replicas as an idle one.
pub(crate) fn active_covers_idle() -> Rule {
    rule(
        "!has(self.idleReplicas) || self.activeReplicas >= self.idleReplicas",
        "activeReplicas must be at least idleReplicas; raise activeReplicas or lower idleReplicas",
    )
    .field_path(".activeReplicas")
}

/// No timer of the operator runs more often than once per second. A length beyond the range of durations fails to
/// evaluate, which shows the same message.
pub(crate) fn duration_range() -> Rule {
    rule(
        "duration(self) >= duration('1s')",
        "must be at least 1s and at most 2562047h, such as 30s, 5m or 1h30m",
    )
}

/// A query is held for at most an hour, the longest that a client can be expected to wait.
pub(crate) fn wake_timeout_range() -> Rule {
    rule(
        "duration(self) >= duration('1s') && duration(self) <= duration('1h')",
        "must be at least 1s and at most 1h, such as 30s or 2m",
    )
}
