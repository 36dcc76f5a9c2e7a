//! The gauges of each instance.

use firebolt_api::condition::InstanceCondition;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::reconciler::LastSuccess;
use prometheus_client::registry::Registry;

use crate::caches::Caches;
use crate::status_gauges::{Labels, ObjectGauge, StatusGauges, set, with};

/// One set of gauges per instance.
#[derive(Debug)]
pub(crate) struct InstanceGauges {
    status: StatusGauges,
    info: ObjectGauge,
}

impl InstanceGauges {
    /// Registers the gauges under the prefix of the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            status: StatusGauges::register_with_phases(registry),
            info: ObjectGauge::default(),
        };
        registry.register(
            "info",
            "Always 1, with the ID of the instance and whether its PostgreSQL is internal",
            gauges.info.clone(),
        );
        gauges
    }

    /// Shows no instance.
    pub(crate) fn clear(&self) {
        self.status.clear();
        self.info.clear();
    }

    /// Shows every instance in the caches.
    pub(crate) fn fill(&self, caches: &Caches, last_success: &LastSuccess) {
        self.clear();
        for instance in caches.instances.all() {
            let Ok(instance) = &instance.0 else { continue };
            let key = ObjectKey::of(instance);
            let labels: Labels = vec![("namespace", key.namespace.clone()), ("name", key.name.clone())];
            let status = instance.status.as_ref();
            self.status.set_phase(&labels, status.and_then(|status| status.phase));
            let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
            self.status.set_conditions::<InstanceCondition>(&labels, conditions);
            self.status.set_last_success(&labels, last_success.get(&key));
            let postgres = match instance.spec.metadata.postgres {
                Some(_) => "external",
                None => "internal",
            };
            let with_id = with(&labels, "id", instance.spec.id.clone().unwrap_or_default());
            set(&self.info, &with(&with_id, "postgres_mode", postgres), 1);
        }
    }
}
