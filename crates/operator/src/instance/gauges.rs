//! The state of each instance as gauges, read from the caches when somebody asks: they need no upkeep and vanish with their
//! instance.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::IntoEnumIterator;

use crate::key::ObjectKey;
use crate::queue::Reconciled;
use crate::watches::Caches;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Instance {
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    namespace: String,
    name: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCondition {
    namespace: String,
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Info {
    namespace: String,
    name: String,
    id: String,
    postgres_mode: &'static str,
}

/// One set of gauges per instance.
#[derive(Debug, Default)]
pub struct InstanceGauges {
    status_phase: Family<InPhase, Gauge>,
    status_condition: Family<OfCondition, Gauge>,
    info: Family<Info, Gauge>,
    last_reconciled: Family<Instance, Gauge>,
}

impl InstanceGauges {
    /// Registers all of them, under names without the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "status_phase",
            "1 for the phase of the instance, 0 for the others",
            own.status_phase.clone(),
        );
        registry.register(
            "status_condition",
            "1 if the condition is True",
            own.status_condition.clone(),
        );
        registry.register(
            "info",
            "1, with the identity of the instance and whose PostgreSQL it uses",
            own.info.clone(),
        );
        registry.register(
            "last_reconciled_timestamp",
            "When the last pass without error ended, in seconds since 1970",
            own.last_reconciled.clone(),
        );
        own
    }

    /// Shows no instance: a standby has none to tell of.
    pub fn clear(&self) {
        self.status_phase.clear();
        self.status_condition.clear();
        self.info.clear();
        self.last_reconciled.clear();
    }

    /// Shows every instance as the caches have it.
    pub fn fill(&self, caches: &Caches, reconciled: &Reconciled) {
        self.clear();
        for instance in caches.instances.all() {
            if let Ok(instance) = &instance.0 {
                self.show(instance, &ObjectKey::of(instance), reconciled);
            }
        }
    }

    fn show(&self, instance: &FireboltInstance, key: &ObjectKey, reconciled: &Reconciled) {
        let (namespace, name) = (|| key.namespace.clone(), || key.name.clone());
        let status = instance.status.clone().unwrap_or_default();
        for phase in InstancePhase::iter() {
            let labels = InPhase {
                namespace: namespace(),
                name: name(),
                phase: phase.into(),
            };
            let is_in = status.phase == Some(phase);
            self.status_phase.get_or_create(&labels).set(i64::from(is_in));
        }
        for condition in InstanceCondition::iter() {
            let r#type: &'static str = condition.into();
            let labels = OfCondition {
                namespace: namespace(),
                name: name(),
                r#type,
            };
            let mut conditions = status.conditions.iter();
            let holds = conditions.any(|known| known.type_ == r#type && known.status == "True");
            self.status_condition.get_or_create(&labels).set(i64::from(holds));
        }
        let info = Info {
            namespace: namespace(),
            name: name(),
            id: instance.spec.id.clone().unwrap_or_default(),
            postgres_mode: match instance.spec.metadata.postgres {
                Some(_) => "external",
                None => "internal",
            },
        };
        self.info.get_or_create(&info).set(1);
        if let Some(time) = reconciled.last(key) {
            let labels = Instance {
                namespace: namespace(),
                name: name(),
            };
            self.last_reconciled.get_or_create(&labels).set(time.as_second());
        }
    }
}
