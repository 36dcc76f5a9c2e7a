//! The plan of a class. Everything here is data; `apply` in the operator executes it.

use firebolt_api::{FireboltEngineClass, FireboltEngineClassStatus};

use super::input::{Input, Source};
use crate::plan::Reads;

/// What one reconcile of a class does. A finalizer that the API server rejects does not prevent the status from being
/// written.
pub type Plan = crate::plan::Plan<ClassWrite, FireboltEngineClassStatus>;

impl Plan {
    /// Whether the plan cannot be trusted to a watch cache that may be stale. The caller then lists the engines live
    /// and plans again; the second plan stands.
    ///
    /// Live reads are needed to remove the finalizer: an engine that the cache does not contain would be left without
    /// its class.
    #[must_use]
    pub fn needs_live_reads(&self, input: &Input) -> bool {
        let grave = self.writes.iter().any(|write| match write {
            ClassWrite::RemoveFinalizer => true,
            ClassWrite::AddFinalizer => false,
        });
        match input.observed.source {
            Source::Watched => grave,
            Source::Live => false,
        }
    }

    /// What has to be read live before this plan, made from what was read there, can be carried out; none if it can.
    #[must_use]
    pub fn reads_needed(&self, input: &Input, reads: Reads) -> Option<Reads> {
        match reads {
            Reads::Cached if self.needs_live_reads(input) => Some(Reads::Live),
            Reads::Cached | Reads::LiveChildren | Reads::Live => None,
        }
    }

    /// Whether the plan writes anything other than a new number of engines: the finalizer, or the rest of the status.
    #[must_use]
    pub fn corrects_drift(&self, class: &FireboltEngineClass) -> bool {
        let writes = !self.writes.is_empty() || self.status.is_some();
        writes && !self.counts_anew(class)
    }

    /// Whether the number of engines changed since it was last reported.
    pub(super) fn counts_anew(&self, class: &FireboltEngineClass) -> bool {
        let before = class.status.as_ref().map(|status| status.bound_engines);
        let next = self.status.as_ref().map(|status| status.bound_engines);
        before.is_some() && next.is_some() && before != next
    }
}

/// One write to the class itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassWrite {
    /// Adds the finalizer of the operator to the class.
    AddFinalizer,
    /// Removes the finalizer of the operator from the class, which completes its deletion.
    RemoveFinalizer,
}
