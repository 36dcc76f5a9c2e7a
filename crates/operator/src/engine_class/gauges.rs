//! The gauges of each engine class.

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::EngineClassCondition;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::Store;
use firebolt_runtime::metrics::gauge_value;
use prometheus_client::registry::Registry;

use crate::caches::{Caches, ENGINES_BY_CLASS};
use crate::status_gauges::{GaugeSources, KindGauges, Labels, ObjectGauge, StatusGauges, set};

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
}

impl KindGauges for EngineClassGauges {
    type Object = FireboltEngineClass;

    fn objects<'a>(&self, caches: &'a Caches) -> &'a Store<FireboltEngineClass> {
        caches.engine_classes.store()
    }

    fn status(&self) -> &StatusGauges {
        &self.status
    }

    fn show(&self, class: &FireboltEngineClass, key: &ObjectKey, labels: &Labels, sources: GaugeSources) {
        let conditions = class.status.as_ref().map(|status| status.conditions.as_slice());
        self.status
            .set_conditions::<EngineClassCondition>(labels, conditions.unwrap_or_default());
        let bound = sources.caches.engines.count_by_index(ENGINES_BY_CLASS, key);
        set(&self.bound_engines, labels, gauge_value(bound));
    }

    fn clear(&self) {
        self.status.clear();
        self.bound_engines.clear();
    }
}
