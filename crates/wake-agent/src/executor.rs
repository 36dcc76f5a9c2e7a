//! Carries out the jobs of the hold queue: each in a task of its own, so that none waits for another.
//!
//! The state machine starts at most one listing, and one probe and one patch per engine, at a time. [`Cluster`] and
//! [`Prober`] limit how many of them run concurrently. The result of a job that panics never arrives, which counts as a
//! timeout.

use std::sync::Arc;

use tracing::{Instrument, Span, error_span, info};

use crate::cluster::Cluster;
use crate::hold::{Event, PatchOutcome};
use crate::hold_queue::{Executor, Job};
use crate::metrics::Metrics;
use crate::probe::Prober;

/// The executor of the hold queue.
pub(crate) fn executor(cluster: Arc<Cluster>, prober: Arc<Prober>, metrics: Arc<Metrics>) -> Executor {
    Box::new(move |queue, epoch, job| {
        let queue = queue.clone();
        let metrics = Arc::clone(&metrics);
        match job {
            Job::List(list) => {
                let cluster = Arc::clone(&cluster);
                tokio::spawn(async move {
                    let engines = cluster.list().await;
                    metrics.listed(engines.is_some());
                    queue.report(epoch, Event::Listed(list, engines));
                });
            }
            Job::Probe(probe) => {
                let prober = Arc::clone(&prober);
                let span = engine_span(cluster.namespace(), &probe.engine);
                let job = async move {
                    let reached = prober.reaches(&probe.engine).await;
                    metrics.probed(reached);
                    queue.report(epoch, Event::Probed(probe, reached));
                };
                tokio::spawn(job.instrument(span));
            }
            Job::Patch(patch) => {
                let cluster = Arc::clone(&cluster);
                let span = engine_span(cluster.namespace(), &patch.engine);
                let job = async move {
                    let outcome = cluster.request_wake(&patch.engine, patch.at).await;
                    if outcome == PatchOutcome::Stored {
                        info!(wake_requested = %patch.at, "sent a wake request for the stopped engine");
                    }
                    metrics.patched(match outcome {
                        PatchOutcome::Stored => "stored",
                        PatchOutcome::Refused => "refused",
                        PatchOutcome::Failed => "failed",
                    });
                    queue.report(epoch, Event::Patched(patch, outcome));
                };
                tokio::spawn(job.instrument(span));
            }
        }
    })
}

/// Adds the engine to every line that is logged within.
fn engine_span(namespace: &str, name: &str) -> Span {
    error_span!("engine", kind = "FireboltEngine", namespace, name)
}
