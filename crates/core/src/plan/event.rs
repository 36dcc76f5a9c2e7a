//! What people are told.

/// An Event of the object that is looked after.
///
/// A warning is planned anew in every pass while its cause lasts; the recorder drops what it has already told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether a person has to act.
    pub severity: Severity,
    /// One word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// Whether a person has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Things go as they should.
    Normal,
    /// A person should look.
    Warning,
}

impl Event {
    /// Things go as they should.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A person should look.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
