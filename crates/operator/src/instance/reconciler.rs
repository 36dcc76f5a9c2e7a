//! What all reconciles of instances share, and what a plan is made from.

use std::sync::Arc;

use firebolt_core::compare::instance::{InstanceComparison, InstanceSnapshot};
use firebolt_core::desired::instance::DesiredInstance;
use firebolt_core::plan::instance::Plan;
use firebolt_runtime::events::Recorder;
use firebolt_runtime::write::WriteAccess;

use super::metrics::InstanceMetrics;
use crate::context::Context;
use crate::kind_metrics::write_access;

/// What all reconciles of instances share.
pub(super) struct InstanceReconciler {
    pub(super) context: Context,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<InstanceMetrics>,
    pub(super) access: WriteAccess,
}

/// A plan, and what it was made from.
pub(super) struct Planned {
    pub(super) snapshot: InstanceSnapshot,
    pub(super) desired: DesiredInstance,
    pub(super) comparison: InstanceComparison,
    pub(super) plan: Plan,
}

impl InstanceReconciler {
    pub(super) fn new(context: Context, recorder: Recorder, metrics: Arc<InstanceMetrics>) -> Self {
        let access = write_access(&context, &metrics.kind);
        Self {
            context,
            recorder,
            metrics,
            access,
        }
    }
}
