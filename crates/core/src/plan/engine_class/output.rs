//! What a decision consists of. Everything here is data; `apply` in the operator carries it out.

use std::time::Duration;

use firebolt_api::FireboltEngineClassStatus;

use super::input::{Input, Source};
use crate::plan::Event;

/// What one pass does.
///
/// The caller performs the writes in order and stops at the first failure; every prefix is a safe place to die. Then it
/// writes the status, guarded by the resourceVersion that the class was read with (or the one that a write of this plan
/// returned), and publishes the events. A finalizer that the API server refuses does not keep the status from being said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// The next status; none if it would not change.
    pub status: Option<FireboltEngineClassStatus>,
    /// What to tell people.
    pub events: Vec<Event>,
    /// When to look again, even if nothing is seen to change.
    pub look_again: Option<Duration>,
}

impl Plan {
    /// Whether the decision is too grave for a watch cache that may lag behind. Then the caller lists the engines live
    /// and decides again; the second decision stands.
    ///
    /// Grave is to let the class go: an engine that the cache does not show would be left without it.
    #[must_use]
    pub fn needs_live_reads(&self, input: &Input) -> bool {
        let grave = self.writes.iter().any(|write| match write {
            Write::RemoveFinalizer => true,
            Write::AddFinalizer => false,
        });
        match input.observed.source {
            Source::Watched => grave,
            Source::Live => false,
        }
    }
}

/// One write to the class itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Puts our finalizer on the class.
    AddFinalizer,
    /// Takes our finalizer off the class, which lets it go.
    RemoveFinalizer,
}
