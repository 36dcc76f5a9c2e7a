//! The controller of engine classes.
//!
//! ```text
//! watches ──► queue ──► observe ──► plan ────────────────► apply ──► report
//!                       (reads)     (pure, in the core)    (writes)  (events, metrics)
//! ```
//!
//! `plan` in the core decides. What a class means for engines is not handled here: engines read their class themselves.

mod apply;
mod gauges;
mod metrics;
mod observe;
mod reconcile;
mod reconciler;
mod report;
mod state;
pub(crate) mod triggers;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::EngineClassMetrics;
use self::reconciler::EngineClassReconciler;
use crate::context::Context;
use crate::controller;

/// Reconciles all classes until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, metrics: Arc<EngineClassMetrics>, stop: CancellationToken) {
    let objects = Arc::clone(context.caches.engine_classes.store());
    let pending = Arc::clone(&context.pending.engine_classes);
    let reconciler = |shared| EngineClassReconciler {
        shared,
        metrics: Arc::clone(&metrics),
    };
    controller::run(context, objects, pending, &metrics.kind, reconciler, stop).await;
}
