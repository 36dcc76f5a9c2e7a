//! The plan of a class. Everything here is data; `apply` in the operator executes it.

use firebolt_api::{FireboltEngineClass, FireboltEngineClassStatus};

use crate::plan::Reads;

/// What one reconcile of a class does. A finalizer that the API server rejects does not prevent the status from being
/// written.
pub type Plan = crate::plan::Plan<ClassWrite, FireboltEngineClassStatus>;

impl Plan {
    /// What has to be read live before this plan, made from what was read there, can be applied; `None` if it can.
    ///
    /// To remove the finalizer, the engines are listed live: one that the cache does not contain would be left without
    /// its class.
    #[must_use]
    pub fn reads_needed(&self, reads: Reads) -> Option<Reads> {
        let releases = self.writes.iter().any(|write| match write {
            ClassWrite::RemoveFinalizer => true,
            ClassWrite::AddFinalizer => false,
        });
        match reads {
            Reads::Cached if releases => Some(Reads::Live),
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
