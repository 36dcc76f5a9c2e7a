//! What is measured about the work on all objects of one kind together.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::reconciled::Reconciled;
use crate::key::ObjectKey;

/// A histogram per set of labels.
pub type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Whether something went well.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    outcome: &'static str,
}

impl Outcome {
    /// The label of a success or a failure.
    #[must_use]
    pub fn of(success: bool) -> Self {
        Self {
            outcome: if success { "success" } else { "error" },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    decision: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: String,
    verb: &'static str,
    outcome: &'static str,
}

/// The metrics of one controller.
#[derive(Debug)]
pub struct WorkMetrics {
    reconcile_duration: Histograms<Outcome>,
    waiting: Gauge,
    scheduled: Gauge,
    decisions: Family<Decision, Counter>,
    api_writes: Family<Write, Counter>,
    /// When the last good pass over each object ended.
    pub reconciled: Reconciled,
}

/// From a millisecond to half a minute.
#[must_use]
pub fn quick() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl WorkMetrics {
    /// Registers all of them. `one` and `all` say what the controller looks after, as in "engine" and "engines".
    pub fn register(registry: &mut Registry, one: &str, all: &str) -> Self {
        let own = Self {
            reconcile_duration: Family::new_with_constructor(quick),
            waiting: Gauge::default(),
            scheduled: Gauge::default(),
            decisions: Family::default(),
            api_writes: Family::default(),
            reconciled: Reconciled::default(),
        };
        registry.register(
            "reconcile_duration_seconds",
            format!("How long a pass over one {one} took"),
            own.reconcile_duration.clone(),
        );
        registry.register(
            "waiting_looks",
            format!("How many {all} wait for a worker"),
            own.waiting.clone(),
        );
        registry.register(
            "scheduled_looks",
            format!("How many {all} are looked at again at a set time"),
            own.scheduled.clone(),
        );
        registry.register(
            "decisions",
            format!("What was decided about {all}"),
            own.decisions.clone(),
        );
        registry.register(
            "api_writes",
            format!("Writes to the API server on behalf of {all}"),
            own.api_writes.clone(),
        );
        own
    }

    /// So many objects wait for a look, and for so many one is scheduled.
    pub fn queued(&self, waiting: usize, scheduled: usize) {
        let count = |objects: usize| i64::try_from(objects).unwrap_or(i64::MAX);
        self.waiting.set(count(waiting));
        self.scheduled.set(count(scheduled));
    }

    /// A pass has ended, well if at a given time.
    pub fn looked(&self, key: &ObjectKey, took: Duration, well_at: Option<Timestamp>) {
        self.reconcile_duration
            .get_or_create(&Outcome::of(well_at.is_some()))
            .observe(took.as_secs_f64());
        if let Some(now) = well_at {
            self.reconciled.note(key, now);
        }
    }

    /// Something was decided.
    pub fn decided(&self, decision: &str) {
        let decision = decision.to_owned();
        self.decisions.get_or_create(&Decision { decision }).inc();
    }

    /// A write was made.
    pub fn wrote(&self, verb: &'static str, kind: &str, stored: bool) {
        let (kind, Outcome { outcome }) = (kind.to_owned(), Outcome::of(stored));
        self.api_writes.get_or_create(&Write { kind, verb, outcome }).inc();
    }
}
