//! The gauges of each instance.

use firebolt_api::FireboltInstance;
use firebolt_api::condition::InstanceCondition;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::Store;
use prometheus_client::registry::Registry;

use crate::caches::Caches;
use crate::status_gauges::{GaugeSources, KindGauges, Labels, ObjectGauge, StatusGauges, set, with};

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
}

impl KindGauges for InstanceGauges {
    type Object = FireboltInstance;

    fn objects<'a>(&self, caches: &'a Caches) -> &'a Store<FireboltInstance> {
        caches.instances.store()
    }

    fn status(&self) -> &StatusGauges {
        &self.status
    }

    fn show(&self, instance: &FireboltInstance, _key: &ObjectKey, labels: &Labels, _sources: GaugeSources) {
        let status = instance.status.as_ref();
        self.status.set_phase(labels, status.and_then(|status| status.phase));
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        self.status.set_conditions::<InstanceCondition>(labels, conditions);
        let postgres = match instance.spec.metadata.postgres {
            Some(_) => "external",
            None => "internal",
        };
        let with_id = with(labels, "id", instance.spec.id.clone().unwrap_or_default());
        set(&self.info, &with(&with_id, "postgres_mode", postgres), 1);
    }

    fn clear(&self) {
        self.status.clear();
        self.info.clear();
    }
}
