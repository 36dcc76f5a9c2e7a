//! The controller of instances.
//!
//! ```text
//! watches ──► queue ──► observe ──► desired, compare, plan ──► apply ──► report
//!                       (reads)     (pure, in the core)        (writes)  (events, metrics)
//! ```
//!
//! The folders of all kinds have the same files.

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

pub(crate) use self::metrics::InstanceMetrics;
use crate::context::Context;
use crate::{controller, events};
use reconciler::InstanceReconciler;

/// Reconciles all instances until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, metrics: Arc<InstanceMetrics>, stop: CancellationToken) {
    let (recorder, broadcaster) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Controller {
        objects: Arc::clone(context.caches.instances.store()),
        pending: Arc::clone(&context.pending.instances),
        metrics: metrics.kind.controller.clone(),
        workers: usize::from(context.settings.workers),
    };
    let reconciler = InstanceReconciler::new(context, recorder, metrics);
    controller::run(reconciler, controller, |stop| broadcaster.run(stop), stop).await;
}
