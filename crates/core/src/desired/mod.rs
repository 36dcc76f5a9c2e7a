//! The desired state of each kind: the specification with everything that it refers to and the operator's defaults, or the
//! reason why it cannot be rendered at present.
//!
//! Nothing is read here: what a specification refers to is looked up by the caller, in a cache or live.

pub mod engine;
pub mod instance;

/// The result of looking up an object that a specification refers to. A failed read is none of these: it is an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// The object exists and can be read.
    Found(T),
    /// There is no such object.
    Missing,
    /// The object exists, but does not parse, for this reason.
    Unreadable(String),
}

impl<T> Lookup<T> {
    /// The object, if it can be read.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}
