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

use firebolt_runtime::reconciler::Controller;
use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::EngineClassMetrics;
use self::reconciler::EngineClassReconciler;
use crate::context::Context;
use crate::{controller, events};

/// Reconciles all classes until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, metrics: Arc<EngineClassMetrics>, stop: CancellationToken) {
    let (recorder, broadcaster) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Controller {
        objects: Arc::clone(context.caches.engine_classes.store()),
        pending: Arc::clone(&context.pending.engine_classes),
        metrics: metrics.kind.controller.clone(),
        workers: usize::from(context.settings.workers),
    };
    let reconciler = EngineClassReconciler::new(context, recorder, metrics);
    controller::run(reconciler, controller, |stop| broadcaster.run(stop), stop).await;
}
