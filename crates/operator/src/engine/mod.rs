//! The controller of engines.
//!
//! ```text
//! watches ──► queue ──► observe ──► desired, compare, plan ──► apply ──► report
//!                       (reads)     (pure, in the core)        (writes)  (events, metrics, probes)
//! ```
//!
//! The folders of all kinds have the same files.

mod apply;
#[cfg(test)]
pub(crate) mod fixture;
mod gauges;
mod metrics;
mod observe;
mod reconcile;
mod reconciler;
mod refused_deletes;
mod report;
mod state;
pub(crate) mod triggers;
mod upgrades;

use std::sync::Arc;

use firebolt_api::{EnginePhase, FireboltEngine};
use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::EngineMetrics;
use crate::context::Context;
use crate::controller;
use crate::probe::Pool;
use reconciler::EngineReconciler;
use upgrades::Upgrades;

/// Reconciles all engines until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, probes: Pool, metrics: Arc<EngineMetrics>, stop: CancellationToken) {
    let objects = Arc::clone(context.caches.engines.store());
    let pending = Arc::clone(&context.pending.engines);
    let reconciler = |shared| EngineReconciler {
        shared,
        probes: probes.clone(),
        metrics: Arc::clone(&metrics),
        upgrades: Upgrades::default(),
    };
    let stop_probes = CancellationToken::new();
    let reconciling = async {
        controller::run(context, objects, pending, &metrics.kind, reconciler, stop).await;
        stop_probes.cancel();
    };
    tokio::join!(reconciling, probes.run(stop_probes.clone()));
}

fn phase(engine: &FireboltEngine) -> Option<EnginePhase> {
    engine.status.as_ref()?.phase
}
