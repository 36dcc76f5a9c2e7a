//! The plan of an instance. Everything here is data; `apply` in the operator executes it.

use firebolt_api::FireboltInstanceStatus;

use super::input::Input;
use super::object::{InstanceObject, InstanceObjectKind};
use crate::plan::Reads;

/// What one reconcile of an instance does.
pub type Plan = crate::plan::Plan<InstanceWrite, FireboltInstanceStatus>;

impl Plan {
    /// Whether the plan cannot be trusted to a watch cache that may be stale.
    ///
    /// Live reads are needed for deletions; for new credentials, which would make a database that has others
    /// inaccessible; and for a change of the database, which must not happen while there are engines that a cache does
    /// not contain yet.
    pub(super) fn needs_live_reads(&self, input: &Input) -> bool {
        let switches = switches(input);
        let grave = self.writes.iter().any(|write| match write {
            InstanceWrite::Create(InstanceObject::PostgresCredentials)
            | InstanceWrite::Delete { .. }
            | InstanceWrite::RemoveFinalizer => true,
            InstanceWrite::Create(_) | InstanceWrite::Apply(_) => switches,
            InstanceWrite::AddFinalizer | InstanceWrite::SetId(_) => false,
        });
        let failed = self
            .status
            .as_ref()
            .is_some_and(|status| status.phase == Some(firebolt_api::InstancePhase::Failed));
        grave || failed
    }

    /// What has to be read live before this plan, made from what was read there, can be applied; `None` if it can.
    ///
    /// The engines that refer to the instance are many, and are listed only where their absence matters.
    #[must_use]
    pub fn reads_needed(&self, input: &Input, reads: Reads) -> Option<Reads> {
        let engines_matter = switches(input) || input.instance.metadata.deletion_timestamp.is_some();
        match reads {
            Reads::Cached if !self.needs_live_reads(input) => None,
            Reads::Cached | Reads::LiveChildren if engines_matter => Some(Reads::Live),
            Reads::Cached => Some(Reads::LiveChildren),
            Reads::LiveChildren | Reads::Live => None,
        }
    }
}

/// Another database is to be used than the one that is.
fn switches(input: &Input) -> bool {
    let used = input.observed.database;
    used.is_some_and(|used| used != input.desired.database)
}

/// One write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InstanceWrite {
    /// Adds the finalizer of the operator to the instance.
    AddFinalizer,
    /// Removes the finalizer of the operator from the instance, which completes its deletion.
    RemoveFinalizer,
    /// Sets `spec.id`, once, guarded by the resourceVersion: an identifier that a user sets takes precedence.
    SetId(String),
    /// Creation of an object that does not exist. The API server must reject it if the object exists after all.
    Create(InstanceObject),
    /// Server-side apply of an object that the instance owns.
    Apply(InstanceObject),
    /// Deletion of an object, with its UID as precondition. An object that no longer exists is a success.
    Delete {
        /// Its kind.
        kind: InstanceObjectKind,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}
