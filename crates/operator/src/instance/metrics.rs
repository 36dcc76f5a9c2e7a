//! What is measured about the work on all instances together.

use std::time::Duration;

use firebolt_core::plan::instance::Component;
use firebolt_runtime::metrics::Histograms;
use firebolt_runtime::reconciler::ReconcileMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::gauges::InstanceGauges;
use crate::kind_metrics::KindMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    component: &'static str,
}

/// The metrics of instances.
#[derive(Debug)]
pub(crate) struct InstanceMetrics {
    /// The state of each instance.
    pub(crate) gauges: InstanceGauges,
    /// What is measured of every kind.
    pub(crate) kind: KindMetrics,
    component_ready: Histograms<Of>,
}

/// From half a second to half an hour.
fn slow() -> Histogram {
    Histogram::new(exponential_buckets(0.5, 2.0, 13))
}

impl InstanceMetrics {
    /// Registers all of them.
    pub(crate) fn register(registry: &mut Registry, reconciles: &ReconcileMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_instance");
        let own = Self {
            gauges: InstanceGauges::register(registry),
            kind: KindMetrics::register(registry, reconciles, "fireboltinstance", "instances"),
            component_ready: Family::new_with_constructor(slow),
        };
        registry.register(
            "component_ready_duration_seconds",
            "How long a component that was not ready took to become ready",
            own.component_ready.clone(),
        );
        own
    }

    /// A component that was waited for is ready.
    pub(crate) fn became_ready(&self, component: Component, after: Duration) {
        let component = match component {
            Component::Postgres => "postgres",
            Component::Metadata => "metadata",
            Component::Gateway => "gateway",
        };
        self.component_ready
            .get_or_create(&Of { component })
            .observe(after.as_secs_f64());
    }
}
