//! The metrics of work queues, under the names that client-go and controller-runtime give them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::priority::Priority;
use crate::metrics::{Histograms, gauge_value};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DepthLabels {
    name: &'static str,
    controller: &'static str,
    priority: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The metrics of all work queues of the process.
#[derive(Debug)]
pub(crate) struct WorkQueueMetrics {
    depth: Family<DepthLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queue_duration: Histograms<QueueLabels>,
    work_duration: Histograms<QueueLabels>,
    unfinished_work: Family<QueueLabels, Seconds>,
    longest_running: Family<QueueLabels, Seconds>,
    scheduled: Family<ControllerLabel, Gauge>,
    queues: Mutex<Vec<(QueueLabels, QueueMetrics)>>,
}

/// The metrics of one work queue. The default is not exported.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    urgent: Gauge,
    normal: Gauge,
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    scheduled: Gauge,
    running: Arc<Running>,
}

/// When each running reconcile began.
#[derive(Debug, Default)]
struct Running {
    next: AtomicU64,
    began: Mutex<HashMap<u64, Instant>>,
}

/// From ten nanoseconds to 1 000 seconds.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

impl WorkQueueMetrics {
    /// Registers the metrics. The registry must not add a prefix; metrics that no other operator has get this one.
    pub(crate) fn register(registry: &mut Registry, prefix: &str) -> Self {
        let metrics = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(durations),
            work_duration: Family::new_with_constructor(durations),
            unfinished_work: Family::default(),
            longest_running: Family::default(),
            scheduled: Family::default(),
            queues: Mutex::default(),
        };
        registry.register(
            "workqueue_depth",
            "Current depth of workqueue by workqueue and priority",
            metrics.depth.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            metrics.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            metrics.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            metrics.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            metrics.work_duration.clone(),
        );
        registry.register(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress and hasn't been observed by work_duration",
            metrics.unfinished_work.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            metrics.longest_running.clone(),
        );
        registry.sub_registry_with_prefix(prefix).register(
            "scheduled_reconciles",
            "Number of objects that are reconciled again at a set time, even if nothing changes",
            metrics.scheduled.clone(),
        );
        metrics
    }

    /// The metrics of the queue of this controller, exported from now on.
    #[must_use]
    pub(crate) fn queue(&self, controller: &'static str) -> QueueMetrics {
        let labels = QueueLabels {
            name: controller,
            controller,
        };
        let depth = |priority| {
            self.depth.get_or_create_owned(&DepthLabels {
                name: controller,
                controller,
                priority,
            })
        };
        let queue = QueueMetrics {
            urgent: depth("urgent"),
            normal: depth("normal"),
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            scheduled: self.scheduled.get_or_create_owned(&ControllerLabel { controller }),
            running: Arc::default(),
        };
        drop(self.unfinished_work.get_or_create(&labels));
        drop(self.longest_running.get_or_create(&labels));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.push((labels, queue.clone()));
        queue
    }

    /// Brings the gauges that grow with time up to date. To be called before the metrics are exported.
    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        for (labels, queue) in &*self.queues.lock().unwrap_or_else(PoisonError::into_inner) {
            let began = queue.running.lock();
            let running = || began.values().map(|began| now.saturating_duration_since(*began));
            let (total, longest) = (running().sum::<Duration>(), running().max().unwrap_or_default());
            self.unfinished_work.get_or_create(labels).set(total.as_secs_f64());
            self.longest_running.get_or_create(labels).set(longest.as_secs_f64());
        }
    }
}

impl Default for QueueMetrics {
    fn default() -> Self {
        Self {
            urgent: Gauge::default(),
            normal: Gauge::default(),
            adds: Counter::default(),
            retries: Counter::default(),
            queue_duration: durations(),
            work_duration: durations(),
            scheduled: Gauge::default(),
            running: Arc::default(),
        }
    }
}

impl QueueMetrics {
    /// An object was added to the queue.
    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    /// A reconcile failed and is retried.
    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    /// An object left the queue after this time.
    pub(crate) fn waited(&self, time: Duration) {
        self.queue_duration.observe(time.as_secs_f64());
    }

    /// So many objects of this priority are in the queue.
    pub(crate) fn set_depth(&self, priority: Priority, depth: usize) {
        match priority {
            Priority::Urgent => self.urgent.set(gauge_value(depth)),
            Priority::Normal => self.normal.set(gauge_value(depth)),
        };
    }

    /// So many objects have a timer.
    pub(crate) fn set_scheduled(&self, timers: usize) {
        self.scheduled.set(gauge_value(timers));
    }

    /// A reconcile begins. It ends when the returned guard is dropped.
    pub(crate) fn started(&self) -> Work {
        let id = self.running.next.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        self.running.lock().insert(id, began);
        Work {
            id,
            began,
            queue: self.clone(),
        }
    }
}

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Instant>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running reconcile.
#[derive(Debug)]
pub(crate) struct Work {
    id: u64,
    began: Instant,
    queue: QueueMetrics,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.queue.running.lock().remove(&self.id);
        self.queue.work_duration.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_in_progress_is_measured_while_it_runs_and_afterwards() {
        let mut registry = Registry::default();
        let metrics = WorkQueueMetrics::register(&mut registry, "widgets");
        let queue = metrics.queue("widget");
        let exported = |line: &str| {
            metrics.refresh();
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        };
        let (first, second) = (queue.started(), queue.started());
        tokio::time::advance(Duration::from_secs(2)).await;
        exported(r#"workqueue_unfinished_work_seconds{name="widget",controller="widget"} 4.0"#);
        exported(r#"workqueue_longest_running_processor_seconds{name="widget",controller="widget"} 2.0"#);
        drop((first, second));
        exported(r#"workqueue_unfinished_work_seconds{name="widget",controller="widget"} 0.0"#);
        exported(r#"workqueue_work_duration_seconds_count{name="widget",controller="widget"} 2"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_exports_every_series_from_the_start() {
        let mut registry = Registry::default();
        let metrics = WorkQueueMetrics::register(&mut registry, "widgets");
        let queue = metrics.queue("widget");
        queue.set_depth(Priority::Urgent, 3);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"workqueue_depth{name="widget",controller="widget",priority="urgent"} 3"#,
            r#"workqueue_depth{name="widget",controller="widget",priority="normal"} 0"#,
            r#"workqueue_adds_total{name="widget",controller="widget"} 0"#,
            r#"workqueue_retries_total{name="widget",controller="widget"} 0"#,
            r#"widgets_scheduled_reconciles{controller="widget"} 0"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
