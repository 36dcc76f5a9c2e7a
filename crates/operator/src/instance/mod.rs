//! The controller of instances: one pass after another over each.
//!
//! ```text
//! watches ──► queue ──► observe ──► desired ──► plan ──► apply ──► events
//!                       (reads)     (pure)      (pure)   (writes)
//! ```
//!
//! `plan` in the core decides; everything here carries out the contract of its caller.

mod apply;
mod credentials;
mod decide;
mod desired;
#[cfg(test)]
mod fixture;
mod found;
mod gauges;
mod identity;
mod memory;
mod metrics;
mod objects;
mod observe;
mod pass;
pub mod watches;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use self::identity::fresh_id;
pub use self::metrics::InstanceMetrics;
use crate::controller::{self, Kind};
use crate::events;
use crate::key::ObjectKey;
use crate::process::Context;
use pass::Controller;

/// Looks after all instances until `stop`, then lets passes under way come to their end.
pub async fn run(context: Context, stop: CancellationToken) {
    let (recorder, sending) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Arc::new(Controller::new(context.clone(), recorder));
    let look = |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        Box::pin(async move { controller.look(&key).await })
    };
    let kind = Kind {
        inbox: &context.inboxes.instances,
        objects: &context.caches.instances,
        work: &context.metrics.instances().work,
        workers: usize::from(context.settings.workers),
    };
    controller::run(kind, stop, |stop| sending.run(stop), look).await;
}
