//! What all reconciles of classes share.

use std::sync::Arc;

use firebolt_runtime::events::Recorder;
use firebolt_runtime::write::WriteAccess;

use super::metrics::EngineClassMetrics;
use crate::context::Context;
use crate::kind_metrics::write_access;

/// What all reconciles of classes share.
pub(super) struct EngineClassReconciler {
    pub(super) context: Context,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<EngineClassMetrics>,
    pub(super) access: WriteAccess,
}

impl EngineClassReconciler {
    pub(super) fn new(context: Context, recorder: Recorder, metrics: Arc<EngineClassMetrics>) -> Self {
        let access = write_access(&context, &metrics.kind);
        Self {
            context,
            recorder,
            metrics,
            access,
        }
    }
}
