//! The metrics of reconciles, under the names that controller-runtime gives them.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::backoff::Outcome;
use super::last_success::LastSuccess;
use crate::key::ObjectKey;
use crate::metrics::{Histograms, gauge_value};
use crate::queue::{QueueMetrics, WorkQueueMetrics};
use crate::reconcile_error::ReconcileError;

/// The buckets of controller-runtime, in seconds.
const TIME_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

/// The metrics of all controllers of the process.
#[derive(Debug)]
pub struct ReconcileMetrics {
    total: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    time: Histograms<ControllerLabel>,
    max_concurrent: Family<ControllerLabel, Gauge>,
    active_workers: Family<ControllerLabel, Gauge>,
    queues: WorkQueueMetrics,
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    success: Counter,
    requeue_after: Counter,
    error: Counter,
    errors: Counter,
    panics: Counter,
    time: Histogram,
    max_concurrent: Gauge,
    active_workers: Gauge,
    queue: QueueMetrics,
    last_success: Arc<LastSuccess>,
}

impl ReconcileMetrics {
    /// Registers the metrics, with those of the work queues. The registry must not add a prefix; metrics that no other operator
    /// has get this one.
    pub fn register(registry: &mut Registry, prefix: &str) -> Self {
        let metrics = Self {
            total: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            time: Family::new_with_constructor(|| Histogram::new(TIME_BUCKETS)),
            max_concurrent: Family::default(),
            active_workers: Family::default(),
            queues: WorkQueueMetrics::register(registry, prefix),
        };
        registry.register(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            metrics.total.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
            metrics.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Total number of reconciliation panics per controller",
            metrics.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            metrics.time.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            metrics.max_concurrent.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
            metrics.active_workers.clone(),
        );
        metrics
    }

    /// The metrics of this controller, exported from now on.
    #[must_use]
    pub fn controller(&self, controller: &'static str) -> ControllerMetrics {
        let label = ControllerLabel { controller };
        let total = |result| self.total.get_or_create_owned(&ResultLabels { controller, result });
        // Dashboards expect it, although no reconcile of ours is requeued without a delay.
        drop(total("requeue"));
        ControllerMetrics {
            success: total("success"),
            requeue_after: total("requeue_after"),
            error: total("error"),
            errors: self.errors.get_or_create_owned(&label),
            panics: self.panics.get_or_create_owned(&label),
            time: self.time.get_or_create_owned(&label),
            max_concurrent: self.max_concurrent.get_or_create_owned(&label),
            active_workers: self.active_workers.get_or_create_owned(&label),
            queue: self.queues.queue(controller),
            last_success: Arc::default(),
        }
    }

    /// Brings the gauges that grow with time up to date. To be called before the metrics are exported.
    pub fn refresh(&self) {
        self.queues.refresh();
    }
}

impl ControllerMetrics {
    /// When the last successful reconcile of each object ended.
    #[must_use]
    pub fn last_success(&self) -> &LastSuccess {
        &self.last_success
    }

    pub(super) fn queue(&self) -> &QueueMetrics {
        &self.queue
    }

    pub(super) fn set_workers(&self, workers: usize) {
        self.max_concurrent.set(gauge_value(workers));
    }

    pub(super) fn panicked(&self) {
        self.panics.inc();
        self.failed();
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.last_success.forget(key);
    }

    /// A reconcile begins. It ends when the returned guard is dropped.
    pub(super) fn started(&self) -> Measured {
        self.active_workers.inc();
        Measured {
            metrics: self.clone(),
            began: Instant::now(),
            _work: self.queue.started(),
        }
    }

    fn failed(&self) {
        self.error.inc();
        self.errors.inc();
        self.queue.retried();
    }
}

/// A reconcile that is running.
pub(super) struct Measured {
    metrics: ControllerMetrics,
    began: Instant,
    _work: crate::queue::Work,
}

impl Measured {
    pub(super) fn finished(self, key: &ObjectKey, result: &Result<Outcome, ReconcileError>) {
        match result {
            Ok(Outcome::Rejected(_)) | Err(_) => return self.metrics.failed(),
            // Nothing was done yet.
            Ok(Outcome::Wait(_)) => {
                self.metrics.requeue_after.inc();
                return;
            }
            Ok(Outcome::Done {
                requeue_after: None,
                throttle: None,
                ..
            }) => self.metrics.success.inc(),
            Ok(Outcome::Done { .. }) => self.metrics.requeue_after.inc(),
        };
        self.metrics.last_success.record(key, Timestamp::now());
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.active_workers.dec();
        self.metrics.time.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;
    use rstest::rstest;

    use super::*;

    fn exported(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[rstest]
    #[case::done(Ok(Outcome::DONE), "success")]
    #[case::timer(Ok(Outcome::requeue_after(Duration::ZERO)), "requeue_after")]
    #[case::throttled(
        Ok(Outcome::Done { requeue_after: None, throttle: Some(Duration::ZERO), rejected: false, corrected_drift: false }),
        "requeue_after"
    )]
    #[case::caches_lag(Ok(Outcome::Wait(Duration::ZERO)), "requeue_after")]
    #[case::rejected(Ok(Outcome::Rejected(ReconcileError::NotLeader)), "error")]
    #[case::error(Err(ReconcileError::NotLeader), "error")]
    fn a_reconcile_is_counted_by_its_result(#[case] result: Result<Outcome, ReconcileError>, #[case] expected: &str) {
        let mut registry = Registry::default();
        let controller = ReconcileMetrics::register(&mut registry, "widgets").controller("widget");
        let key = ObjectKey::new("n", "w");
        let measured = controller.started();
        let running = "controller_runtime_active_workers{controller=\"widget\"} 1\n";
        assert!(exported(&registry).contains(running));
        measured.finished(&key, &result);
        let text = exported(&registry);
        for label in ["success", "error", "requeue", "requeue_after"] {
            let count = u8::from(label == expected);
            let line =
                format!("controller_runtime_reconcile_total{{controller=\"widget\",result=\"{label}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        let errors = u8::from(expected == "error");
        for line in [
            format!("controller_runtime_reconcile_errors_total{{controller=\"widget\"}} {errors}\n"),
            format!("workqueue_retries_total{{name=\"widget\",controller=\"widget\"}} {errors}\n"),
            "controller_runtime_reconcile_time_seconds_count{controller=\"widget\"} 1\n".to_owned(),
            "controller_runtime_active_workers{controller=\"widget\"} 0\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        let is_done = matches!(result, Ok(Outcome::Done { .. }));
        assert_eq!(controller.last_success().get(&key).is_some(), is_done);
        controller.forget(&key);
        assert_eq!(controller.last_success().get(&key), None);
    }
}
