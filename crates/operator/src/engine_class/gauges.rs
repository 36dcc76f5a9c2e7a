//! The gauges of each engine class.

use firebolt_api::condition::EngineClassCondition;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::metrics::gauge_value;
use firebolt_runtime::reconciler::LastSuccess;
use prometheus_client::registry::Registry;

use crate::caches::{Caches, ENGINES_BY_CLASS};
use crate::status_gauges::{Labels, ObjectGauge, StatusGauges, set};

/// One set of gauges per class.
#[derive(Debug)]
pub(crate) struct EngineClassGauges {
    status: StatusGauges,
    bound_engines: ObjectGauge,
}

impl EngineClassGauges {
    /// Registers the gauges under the prefix of the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            status: StatusGauges::register(registry),
            bound_engines: ObjectGauge::default(),
        };
        registry.register(
            "bound_engines",
            "Number of engines that reference the class",
            gauges.bound_engines.clone(),
        );
        gauges
    }

    /// Shows no class.
    pub(crate) fn clear(&self) {
        self.status.clear();
        self.bound_engines.clear();
    }

    /// Shows every class in the caches.
    pub(crate) fn fill(&self, caches: &Caches, last_success: &LastSuccess) {
        self.clear();
        for class in caches.engine_classes.all() {
            let Ok(class) = &class.0 else { continue };
            let key = ObjectKey::of(class);
            let labels: Labels = vec![("namespace", key.namespace.clone()), ("name", key.name.clone())];
            let conditions = class.status.as_ref().map(|status| status.conditions.as_slice());
            self.status
                .set_conditions::<EngineClassCondition>(&labels, conditions.unwrap_or_default());
            self.status.set_last_success(&labels, last_success.get(&key));
            let bound = caches.engines.count_by_index(ENGINES_BY_CLASS, &key);
            set(&self.bound_engines, &labels, gauge_value(bound));
        }
    }
}
