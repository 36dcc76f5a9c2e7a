//! The state of each class as gauges, read from the caches when somebody asks: they need no upkeep and vanish with their
//! class.

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::EngineClassCondition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::IntoEnumIterator;

use crate::key::ObjectKey;
use crate::queue::Reconciled;
use crate::watches::Caches;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Class {
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCondition {
    namespace: String,
    name: String,
    r#type: &'static str,
}

/// One set of gauges per class.
#[derive(Debug, Default)]
pub struct EngineClassGauges {
    bound_engines: Family<Class, Gauge>,
    status_condition: Family<OfCondition, Gauge>,
    last_reconciled: Family<Class, Gauge>,
}

impl EngineClassGauges {
    /// Registers all of them, under names without the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "bound_engines",
            "Engines that refer to the class",
            own.bound_engines.clone(),
        );
        registry.register(
            "status_condition",
            "1 if the condition is True",
            own.status_condition.clone(),
        );
        registry.register(
            "last_reconciled_timestamp",
            "When the last pass without error ended, in seconds since 1970",
            own.last_reconciled.clone(),
        );
        own
    }

    /// Shows no class: a standby has none to tell of.
    pub fn clear(&self) {
        self.bound_engines.clear();
        self.status_condition.clear();
        self.last_reconciled.clear();
    }

    /// Shows every class as the caches have it.
    pub fn fill(&self, caches: &Caches, reconciled: &Reconciled) {
        self.clear();
        for class in caches.engine_classes.all() {
            let Ok(class) = &class.0 else { continue };
            let key = ObjectKey::of(class);
            self.show(class, &key);
            let labels = Class {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            };
            let bound = i64::try_from(caches.engines.count_of_class(&key)).unwrap_or(i64::MAX);
            self.bound_engines.get_or_create(&labels).set(bound);
            if let Some(time) = reconciled.last(&key) {
                self.last_reconciled.get_or_create(&labels).set(time.as_second());
            }
        }
    }

    fn show(&self, class: &FireboltEngineClass, key: &ObjectKey) {
        for condition in EngineClassCondition::iter() {
            let r#type: &'static str = condition.into();
            let conditions = class.status.iter().flat_map(|status| &status.conditions);
            let holds = conditions
                .into_iter()
                .any(|known| known.type_ == r#type && known.status == "True");
            let labels = OfCondition {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                r#type,
            };
            self.status_condition.get_or_create(&labels).set(i64::from(holds));
        }
    }
}
