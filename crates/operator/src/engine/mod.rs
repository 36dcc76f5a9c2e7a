//! The controller of engines: one pass after another over each, many engines at once.
//!
//! ```text
//! watches ──► queue ──► observe ──► desired ──► plan ──► apply ──► events, probes
//!                       (reads)     (pure)      (pure)   (writes)
//! ```
//!
//! `plan` in the core decides; everything here carries out the contract of its caller.

mod apply;
mod decide;
mod desired;
mod diagnose;
#[cfg(test)]
pub(crate) mod fixture;
mod gauges;
mod hold_back;
mod memory;
mod metrics;
mod observe;
mod pass;
mod probes;
pub mod watches;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::metrics::EngineMetrics;
pub use self::probes::pool;
use crate::controller::{self, Kind};
use crate::events;
use crate::key::ObjectKey;
use crate::process::Context;
use pass::Controller;

/// Looks after all engines until `stop`, then lets passes under way come to their end.
pub async fn run(context: Context, stop: CancellationToken) {
    let (recorder, sending) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Arc::new(Controller::new(context.clone(), recorder));
    let look = |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        // It is large, and most of the time there are few.
        Box::pin(async move { controller.look(&key).await })
    };
    let kind = Kind {
        inbox: &context.inboxes.engines,
        objects: &context.caches.engines,
        work: &context.metrics.engines().work,
        workers: usize::from(context.settings.workers),
    };
    let probes = context.probes.clone();
    let beside = |stop: CancellationToken| async move {
        tokio::join!(probes.run(stop.clone()), sending.run(stop));
    };
    controller::run(kind, stop, beside, look).await;
}
