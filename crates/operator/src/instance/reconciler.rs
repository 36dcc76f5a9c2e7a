//! What all reconciles of instances share, and what a plan is made from.

use std::sync::Arc;

use firebolt_core::compare::instance::{InstanceComparison, InstanceSnapshot};
use firebolt_core::desired::instance::DesiredInstance;
use firebolt_core::plan::instance::Plan;

use super::metrics::InstanceMetrics;
use crate::controller::Shared;

/// What all reconciles of instances share.
pub(super) struct InstanceReconciler {
    pub(super) shared: Shared,
    pub(super) metrics: Arc<InstanceMetrics>,
}

/// A plan, and what it was made from.
pub(super) struct Planned {
    pub(super) snapshot: InstanceSnapshot,
    pub(super) desired: DesiredInstance,
    pub(super) comparison: InstanceComparison,
    pub(super) plan: Plan,
}
