//! Kubernetes Events of a plan.

/// The reason of the warning that the finalizer of another controller blocks the deletion of an owned object.
pub const EXTERNAL_FINALIZER: &str = "ExternalFinalizerOnOwnedResource";

/// An Event about the object that is reconciled.
///
/// A warning is planned in every reconcile while its cause lasts; the recorder drops duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Type of an Event.
    pub severity: Severity,
    /// Machine-readable reason, in CamelCase.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

/// Type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// An expected change.
    Normal,
    /// A problem that a person may have to solve.
    Warning,
}

impl PlannedEvent {
    /// An expected change.
    pub(crate) fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A problem that a person may have to solve.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
