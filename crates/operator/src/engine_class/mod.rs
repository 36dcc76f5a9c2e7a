//! The controller of engine classes: one pass after another over each.
//!
//! ```text
//! watches ──► queue ──► observe ──► plan ──► apply ──► events
//!                       (reads)     (pure)   (writes)
//! ```
//!
//! `plan` in the core decides; everything here carries out the contract of its caller. What a class means to engines is
//! none of this: they read it for themselves.

mod apply;
mod decide;
mod gauges;
mod memory;
mod metrics;
mod observe;
mod pass;
pub mod watches;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::metrics::EngineClassMetrics;
use crate::controller::{self, Kind};
use crate::events;
use crate::key::ObjectKey;
use crate::process::Context;
use pass::Controller;

/// Looks after all classes until `stop`, then lets passes under way come to their end.
pub async fn run(context: Context, stop: CancellationToken) {
    let (recorder, sending) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Arc::new(Controller::new(context.clone(), recorder));
    let look = |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        async move { controller.look(&key).await }
    };
    let kind = Kind {
        inbox: &context.inboxes.engine_classes,
        objects: &context.caches.engine_classes,
        work: &context.metrics.engine_classes().work,
        workers: usize::from(context.settings.workers),
    };
    controller::run(kind, stop, |stop| sending.run(stop), look).await;
}
