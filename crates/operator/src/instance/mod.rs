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

pub use self::metrics::InstanceMetrics;
use crate::events;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::{self, Lane};
use pass::Controller;

/// Looks after all instances until `stop`, then lets passes under way come to their end.
pub async fn run(context: Context, stop: CancellationToken) {
    let (recorder, sending) = events::recorder(context.client.clone(), &context.settings.identity);
    let workers = usize::from(context.settings.workers);
    let (inbox, metrics) = (Arc::clone(&context.inboxes.instances), Arc::clone(&context.metrics));
    inbox.open();
    for instance in context.caches.instances.all() {
        inbox.add(ObjectKey::of(&*instance), Lane::Ordinary);
    }
    let controller = Arc::new(Controller::new(context, recorder));
    let look = |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        Box::pin(async move { controller.look(&key).await })
    };
    // Outlives the passes, whose last words it still has to tell.
    let side_work = CancellationToken::new();
    let passes = async {
        let measure = |waiting, scheduled| metrics.instances().work.queued(waiting, scheduled);
        queue::work(&inbox, workers, stop, measure, look).await;
        side_work.cancel();
    };
    tokio::join!(passes, sending.run(side_work.clone()));
}
