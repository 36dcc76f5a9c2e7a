//! Does what the table wants done: each job in a task of its own, so that none waits for another.
//!
//! The table has at most one listing, and one probe and one patch per engine, under way; the cluster and the prober bound
//! how many of them are at work at a time. A job that panics is one whose news never come, which the table reckons with.

use std::sync::Arc;

use tracing::info;

use crate::cluster::Cluster;
use crate::desk::{Job, Work};
use crate::metrics::Metrics;
use crate::probe::Prober;
use crate::table::{Event, PatchOutcome};

/// What begins jobs.
#[must_use]
pub fn work(cluster: Arc<Cluster>, prober: Arc<Prober>, metrics: Arc<Metrics>) -> Work {
    Box::new(move |desk, era, job| {
        let desk = desk.clone();
        let metrics = Arc::clone(&metrics);
        match job {
            Job::List(list) => {
                let cluster = Arc::clone(&cluster);
                tokio::spawn(async move {
                    let engines = cluster.list().await;
                    metrics.listed(engines.is_some());
                    desk.tell(era, Event::Listed(list, engines));
                });
            }
            Job::Probe(probe) => {
                let prober = Arc::clone(&prober);
                tokio::spawn(async move {
                    let reached = prober.reaches(&probe.engine).await;
                    metrics.probed(reached);
                    desk.tell(era, Event::Probed(probe, reached));
                });
            }
            Job::Patch(patch) => {
                let cluster = Arc::clone(&cluster);
                tokio::spawn(async move {
                    let outcome = cluster.ask_for(&patch.engine, patch.at).await;
                    if outcome == PatchOutcome::Stored {
                        info!(engine = %patch.engine, at = %patch.at, "asked for a stopped engine");
                    }
                    metrics.patched(match outcome {
                        PatchOutcome::Stored => "stored",
                        PatchOutcome::Refused => "refused",
                        PatchOutcome::Failed => "failed",
                    });
                    desk.tell(era, Event::Patched(patch, outcome));
                });
            }
        }
    })
}
