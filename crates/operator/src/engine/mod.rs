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
mod report;
mod state;
pub(crate) mod triggers;

use std::sync::Arc;

use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_runtime::reconciler::Controller;
use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::EngineMetrics;
use crate::context::Context;
use crate::probe::Pool;
use crate::{controller, events};
use reconciler::EngineReconciler;

/// Reconciles all engines until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, probes: Pool, metrics: Arc<EngineMetrics>, stop: CancellationToken) {
    let (recorder, broadcaster) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Controller {
        objects: Arc::clone(context.caches.engines.store()),
        pending: Arc::clone(&context.pending.engines),
        metrics: metrics.kind.controller.clone(),
        workers: usize::from(context.settings.workers),
    };
    let reconciler = EngineReconciler::new(context, probes.clone(), recorder, metrics);
    let beside = |stop: CancellationToken| async move {
        tokio::join!(probes.run(stop.clone()), broadcaster.run(stop));
    };
    controller::run(reconciler, controller, beside, stop).await;
}

fn phase(engine: &FireboltEngine) -> Option<EnginePhase> {
    engine.status.as_ref()?.phase
}
