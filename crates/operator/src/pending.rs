//! The objects to reconcile, by kind.

use std::sync::Arc;

use firebolt_runtime::ObjectKey;
use firebolt_runtime::queue::PendingSet;

/// One pending set per kind that is reconciled.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Engines.
    pub engines: Arc<PendingSet<ObjectKey>>,
    /// Instances.
    pub instances: Arc<PendingSet<ObjectKey>>,
    /// Engine classes.
    pub(crate) engine_classes: Arc<PendingSet<ObjectKey>>,
}
