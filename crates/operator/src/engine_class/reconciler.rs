//! What all reconciles of classes share.

use std::sync::Arc;

use super::metrics::EngineClassMetrics;
use crate::controller::Shared;

/// What all reconciles of classes share.
pub(super) struct EngineClassReconciler {
    pub(super) shared: Shared,
    pub(super) metrics: Arc<EngineClassMetrics>,
}
