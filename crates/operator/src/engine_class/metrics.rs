//! What is measured about engine classes.

use firebolt_runtime::reconciler::ReconcileMetrics;
use prometheus_client::registry::Registry;

use super::gauges::EngineClassGauges;
use crate::kind_metrics::KindMetrics;

/// The metrics of engine classes.
#[derive(Debug)]
pub(crate) struct EngineClassMetrics {
    /// The state of each class.
    pub(crate) gauges: EngineClassGauges,
    /// What is measured of every kind.
    pub(crate) kind: KindMetrics,
}

impl EngineClassMetrics {
    /// Registers all of them.
    pub(crate) fn register(registry: &mut Registry, reconciles: &ReconcileMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_engine_class");
        Self {
            gauges: EngineClassGauges::register(registry),
            kind: KindMetrics::register(registry, reconciles, "fireboltengineclass", "engine classes"),
        }
    }
}
