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

use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::InstanceMetrics;
use crate::context::Context;
use crate::controller;
use reconciler::InstanceReconciler;

/// Reconciles all instances until `stop`, then lets running reconciles end.
pub(crate) async fn run(context: Context, metrics: Arc<InstanceMetrics>, stop: CancellationToken) {
    let objects = Arc::clone(context.caches.instances.store());
    let pending = Arc::clone(&context.pending.instances);
    let reconciler = |shared| InstanceReconciler {
        shared,
        metrics: Arc::clone(&metrics),
    };
    controller::run(context, objects, pending, &metrics.kind, reconciler, stop).await;
}
