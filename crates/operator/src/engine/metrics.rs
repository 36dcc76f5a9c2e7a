//! What is measured about the work on all engines together.

use std::time::Duration;

use firebolt_api::EnginePhase;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::gauges::EngineGauges;
use crate::key::ObjectKey;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    decision: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: &'static str,
    verb: &'static str,
    outcome: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of engines.
#[derive(Debug)]
pub struct EngineMetrics {
    /// The state of each engine.
    pub gauges: EngineGauges,
    reconcile_duration: Histograms<Outcome>,
    phase_duration: Histograms<Phase>,
    wake_to_patched: Histogram,
    probe_duration: Histograms<Outcome>,
    waiting: Gauge,
    scheduled: Gauge,
    decisions: Family<Decision, Counter>,
    api_writes: Family<Write, Counter>,
}

/// From a millisecond to half a minute.
fn quick() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// From a tenth of a second to an hour.
fn slow() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 2.0, 16))
}

fn outcome(success: bool) -> &'static str {
    if success { "success" } else { "error" }
}

impl EngineMetrics {
    /// Registers all of them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_engine");
        let own = Self {
            gauges: EngineGauges::register(registry),
            reconcile_duration: Family::new_with_constructor(quick),
            phase_duration: Family::new_with_constructor(slow),
            wake_to_patched: quick(),
            probe_duration: Family::new_with_constructor(quick),
            waiting: Gauge::default(),
            scheduled: Gauge::default(),
            decisions: Family::default(),
            api_writes: Family::default(),
        };
        registry.register(
            "reconcile_duration_seconds",
            "How long a pass over one engine took",
            own.reconcile_duration.clone(),
        );
        registry.register(
            "rollout_phase_duration_seconds",
            "How long an engine stayed in a phase of a rollout",
            own.phase_duration.clone(),
        );
        registry.register(
            "wake_to_patched_seconds",
            "From the time in the wake annotation to the patch of spec.replicas",
            own.wake_to_patched.clone(),
        );
        registry.register(
            "probe_duration_seconds",
            "How long it took to ask a pod for its queries",
            own.probe_duration.clone(),
        );
        registry.register("waiting_looks", "Engines that wait for a worker", own.waiting.clone());
        registry.register(
            "scheduled_looks",
            "Engines that are looked at again at a set time",
            own.scheduled.clone(),
        );
        registry.register("decisions", "What was decided about engines", own.decisions.clone());
        registry.register(
            "api_writes",
            "Writes to the API server on behalf of engines",
            own.api_writes.clone(),
        );
        own
    }

    /// So many engines wait for a look, and for so many one is scheduled.
    pub fn queued(&self, waiting: usize, scheduled: usize) {
        let count = |engines: usize| i64::try_from(engines).unwrap_or(i64::MAX);
        self.waiting.set(count(waiting));
        self.scheduled.set(count(scheduled));
    }

    /// A pass has ended, well if at a given time.
    pub fn looked(&self, key: &ObjectKey, took: Duration, well_at: Option<Timestamp>) {
        let outcome = outcome(well_at.is_some());
        self.reconcile_duration
            .get_or_create(&Outcome { outcome })
            .observe(took.as_secs_f64());
        if let Some(now) = well_at {
            self.gauges.reconciled(key, now);
        }
    }

    /// An engine has left a phase.
    pub fn left(&self, phase: EnginePhase, after: Duration) {
        let phase = phase.into();
        self.phase_duration
            .get_or_create(&Phase { phase })
            .observe(after.as_secs_f64());
    }

    /// A wake was answered.
    pub fn woke(&self, after: Duration) {
        self.wake_to_patched.observe(after.as_secs_f64());
    }

    /// A pod was asked for its queries.
    pub fn probed(&self, took: Duration, answered: bool) {
        let outcome = outcome(answered);
        self.probe_duration
            .get_or_create(&Outcome { outcome })
            .observe(took.as_secs_f64());
    }

    /// Something was decided.
    pub fn decided(&self, decision: &str) {
        let decision = decision.to_owned();
        self.decisions.get_or_create(&Decision { decision }).inc();
    }

    /// A write was made.
    pub fn wrote(&self, verb: &'static str, kind: &'static str, stored: bool) {
        let outcome = outcome(stored);
        self.api_writes.get_or_create(&Write { kind, verb, outcome }).inc();
    }
}
