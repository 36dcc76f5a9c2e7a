//! What all reconciles of engines share, and what a plan is made from.

use std::sync::Arc;

use firebolt_api::FireboltEngine;
use firebolt_core::compare::engine::EngineSnapshot;
use firebolt_core::desired::engine::DesiredEngine;
use firebolt_core::plan::engine::{Adoption, Input, Limits, Observed, Plan};
use jiff::Timestamp;

use super::metrics::EngineMetrics;
use super::upgrades::Upgrades;
use crate::controller::Shared;
use crate::probe::Pool;

/// What all reconciles of engines share.
pub(super) struct EngineReconciler {
    pub(super) shared: Shared,
    pub(super) probes: Pool,
    pub(super) metrics: Arc<EngineMetrics>,
    pub(super) upgrades: Upgrades,
}

/// A plan, and what it was made from.
pub(super) struct Planned {
    pub(super) snapshot: EngineSnapshot,
    pub(super) desired: DesiredEngine,
    pub(super) observed: Observed,
    pub(super) plan: Plan,
    pub(super) adoption: Adoption,
}

impl EngineReconciler {
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
            auto_stop: desired.auto_stop.as_ref(),
            instance: desired.instance.as_ref().copied().map_err(String::as_str),
            drain: desired.drain,
            progress_deadline: self.shared.context.settings.rollout_progress_deadline,
            switch_notice: self.shared.context.settings.switch_notice,
            lost_pod_timeout: self.shared.context.settings.lost_pod_timeout,
            observed,
            limits,
            now,
        }
    }
}
