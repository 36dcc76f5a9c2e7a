//! What is measured about the work on all engines together.

use std::time::Duration;

use firebolt_api::EnginePhase;
use firebolt_runtime::metrics::Histograms;
use firebolt_runtime::reconciler::ReconcileMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::gauges::EngineGauges;
use crate::kind_metrics::KindMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Wake {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Probe {
    outcome: &'static str,
}

/// The metrics of engines.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    /// The state of each engine.
    pub(crate) gauges: EngineGauges,
    /// What is measured of every kind.
    pub(crate) kind: KindMetrics,
    phase_duration: Histograms<Phase>,
    wake_to_patched: Histogram,
    wakes: Family<Wake, Counter>,
    probe_duration: Histograms<Probe>,
}

const HONOURED: &str = "honoured";
const IGNORED: &str = "ignored";

/// From a millisecond to half a minute.
fn quick() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// From a tenth of a second to an hour.
fn slow() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 2.0, 16))
}

impl EngineMetrics {
    /// Registers all of them.
    pub(crate) fn register(registry: &mut Registry, reconciles: &ReconcileMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_engine");
        let own = Self {
            gauges: EngineGauges::register(registry),
            kind: KindMetrics::register(registry, reconciles, "fireboltengine", "engines"),
            phase_duration: Family::new_with_constructor(slow),
            wake_to_patched: quick(),
            wakes: Family::default(),
            probe_duration: Family::new_with_constructor(quick),
        };
        registry.register(
            "rollout_phase_duration_seconds",
            "How long an engine stayed in a phase of a rollout",
            own.phase_duration.clone(),
        );
        registry.register(
            "wake_to_patched_seconds",
            "Time from the timestamp of the wake request to the patch of spec.replicas",
            own.wake_to_patched.clone(),
        );
        registry.register("wakes", "Total number of wake requests, by outcome", own.wakes.clone());
        for outcome in [HONOURED, IGNORED] {
            drop(own.wakes.get_or_create(&Wake { outcome }));
        }
        registry.register(
            "probe_duration_seconds",
            "Duration of reading the running queries of one pod",
            own.probe_duration.clone(),
        );
        own
    }

    /// An engine has left a phase.
    pub(crate) fn left(&self, phase: EnginePhase, after: Duration) {
        let phase = phase.into();
        self.phase_duration
            .get_or_create(&Phase { phase })
            .observe(after.as_secs_f64());
    }

    /// A wake was honoured.
    pub(crate) fn woke(&self, after: Duration) {
        self.wake_to_patched.observe(after.as_secs_f64());
        self.wakes.get_or_create(&Wake { outcome: HONOURED }).inc();
    }

    /// An event reported that a wake is ignored.
    pub(crate) fn ignored_a_wake(&self) {
        self.wakes.get_or_create(&Wake { outcome: IGNORED }).inc();
    }

    /// The queries of a pod were scraped.
    pub(crate) fn probed(&self, took: Duration, answered: bool) {
        self.probe_duration
            .get_or_create(&Probe {
                outcome: if answered { "success" } else { "error" },
            })
            .observe(took.as_secs_f64());
    }
}
