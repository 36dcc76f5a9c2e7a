//! An event about an object.

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type.
    pub type_: EventType,
    /// Why, in one word.
    pub reason: String,
    /// What happened, in a sentence.
    pub message: String,
}

/// Whether something needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It does not.
    Normal,
    /// It does.
    Warning,
}
