//! What all reconciles of engines share, and what a plan is made from.

use std::sync::Arc;

use firebolt_api::FireboltEngine;
use firebolt_core::compare::engine::EngineSnapshot;
use firebolt_core::desired::engine::DesiredEngine;
use firebolt_core::plan::engine::{Input, Limits, Observed, Plan};
use firebolt_runtime::events::Recorder;
use firebolt_runtime::write::WriteAccess;
use jiff::Timestamp;

use super::metrics::EngineMetrics;
use crate::context::Context;
use crate::kind_metrics::write_access;
use crate::probe::Pool;

/// What all reconciles of engines share.
pub(super) struct EngineReconciler {
    pub(super) context: Context,
    pub(super) probes: Pool,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<EngineMetrics>,
    pub(super) access: WriteAccess,
}

/// A plan, and what it was made from.
pub(super) struct Planned {
    pub(super) snapshot: EngineSnapshot,
    pub(super) desired: DesiredEngine,
    pub(super) observed: Observed,
    pub(super) plan: Plan,
}

impl EngineReconciler {
    pub(super) fn new(context: Context, probes: Pool, recorder: Recorder, metrics: Arc<EngineMetrics>) -> Self {
        let access = write_access(&context, &metrics.kind);
        Self {
            context,
            probes,
            recorder,
            metrics,
            access,
        }
    }

    pub(super) fn input<'a>(
        &self,
        engine: &'a FireboltEngine,
        desired: &'a DesiredEngine,
        observed: &'a Observed,
        now: Timestamp,
        limits: Limits<'a>,
    ) -> Input<'a> {
        Input {
            engine,
            desired: &desired.generation,
            drain: desired.drain,
            progress_deadline: self.context.settings.rollout_progress_deadline,
            observed,
            limits,
            now,
        }
    }
}
