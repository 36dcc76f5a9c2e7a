//! What a decision is made from: the class, the engines that refer to it, and the time.
//!
//! # What the caller owes
//!
//! - A failed read is an error of the pass, never an absence in [`Observed`].
//! - Watch caches will do for a first decision. If [`Plan::needs_live_reads`](super::Plan::needs_live_reads) says so, the
//!   engines are listed live and the decision is made again.

use firebolt_api::FireboltEngineClass;
use jiff::Timestamp;

/// Everything that one decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The class as it was read.
    pub class: &'a FireboltEngineClass,
    /// Who refers to it.
    pub observed: &'a Observed,
    /// The time.
    pub now: Timestamp,
}

/// The engines in the namespace of a class, as far as they concern it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Those that refer to it, by name. One that is being deleted refers to it to its end.
    pub bound: Vec<String>,
    /// Those that cannot be read, by name: nobody knows what they refer to. Needed only once the class is being deleted.
    pub unreadable: Vec<String>,
    /// Where this was seen.
    pub source: Source,
}

/// Where something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// In the watch caches, which may lag behind and hold only what the operator is told to look after.
    Watched,
    /// In a list that the API server made of everything there is.
    Live,
}
