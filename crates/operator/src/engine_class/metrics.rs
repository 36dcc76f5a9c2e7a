//! What is measured about engine classes.

use prometheus_client::registry::Registry;

use super::gauges::EngineClassGauges;
use crate::queue::WorkMetrics;

/// The metrics of engine classes.
#[derive(Debug)]
pub struct EngineClassMetrics {
    /// The state of each class.
    pub gauges: EngineClassGauges,
    /// The work on them.
    pub work: WorkMetrics,
}

impl EngineClassMetrics {
    /// Registers all of them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_engine_class");
        Self {
            gauges: EngineClassGauges::register(registry),
            work: WorkMetrics::register(registry, "engine class", "engine classes"),
        }
    }
}
