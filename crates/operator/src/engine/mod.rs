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
use crate::events;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::{self, Lane};
use pass::Controller;

/// Looks after all engines until `stop`, then lets passes under way come to their end.
pub async fn run(context: Context, stop: CancellationToken) {
    let (recorder, sending) = events::recorder(context.client.clone(), &context.settings.identity);
    let workers = usize::from(context.settings.workers);
    let (inbox, probes) = (Arc::clone(&context.inboxes.engines), context.probes.clone());
    let metrics = Arc::clone(&context.metrics);
    inbox.open();
    for engine in context.caches.engines.all() {
        inbox.add(ObjectKey::of(&*engine), Lane::Ordinary);
    }
    let controller = Arc::new(Controller::new(context, recorder));
    let look = |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        // It is large, and most of the time there are few.
        Box::pin(async move { controller.look(&key).await })
    };
    // Outlives the passes, whose last words it still has to tell.
    let side_work = CancellationToken::new();
    let passes = async {
        let measure = |waiting, scheduled| metrics.engines().work.queued(waiting, scheduled);
        queue::work(&inbox, workers, stop, measure, look).await;
        side_work.cancel();
    };
    tokio::join!(passes, probes.run(side_work.clone()), sending.run(side_work.clone()));
}
