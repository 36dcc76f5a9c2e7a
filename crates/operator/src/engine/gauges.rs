//! The state of each engine as gauges, read from the caches when somebody asks: they need no upkeep and vanish with their
//! engine.

use firebolt_api::condition::EngineCondition;
use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::pods;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::IntoEnumIterator;

use crate::key::ObjectKey;
use crate::queue::Reconciled;
use crate::watches::Caches;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Engine {
    namespace: String,
    name: String,
    instance: String,
}

impl Engine {
    fn of(engine: &FireboltEngine, key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            instance: engine.spec.instance_ref.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    namespace: String,
    name: String,
    instance: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCondition {
    namespace: String,
    name: String,
    instance: String,
    r#type: &'static str,
}

/// One set of gauges per engine.
#[derive(Debug, Default)]
pub struct EngineGauges {
    status_phase: Family<InPhase, Gauge>,
    status_condition: Family<OfCondition, Gauge>,
    spec_replicas: Family<Engine, Gauge>,
    active_generation: Family<Engine, Gauge>,
    draining_generation: Family<Engine, Gauge>,
    pods_ready: Family<Engine, Gauge>,
    pods_total: Family<Engine, Gauge>,
    last_reconciled: Family<Engine, Gauge>,
    drain_check_errors: Family<Engine, Counter>,
}

impl EngineGauges {
    /// Registers all of them, under names without the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "status_phase",
            "1 for the phase of the engine, 0 for the others",
            own.status_phase.clone(),
        );
        registry.register(
            "status_condition",
            "1 if the condition is True",
            own.status_condition.clone(),
        );
        registry.register(
            "drain_check_errors",
            "Failed attempts to count the queries of a draining generation",
            own.drain_check_errors.clone(),
        );
        for (name, help, gauge) in own.plain() {
            registry.register(name, help, gauge.clone());
        }
        own
    }

    fn plain(&self) -> [(&'static str, &'static str, &Family<Engine, Gauge>); 6] {
        [
            (
                "spec_replicas",
                "Replicas that the engine is to have",
                &self.spec_replicas,
            ),
            (
                "active_generation",
                "The generation that serves, -1 before the first",
                &self.active_generation,
            ),
            (
                "draining_generation",
                "The generation that finishes its queries, -1 if none",
                &self.draining_generation,
            ),
            ("pods_ready", "Ready pods of the active generation", &self.pods_ready),
            ("pods_total", "Pods of the active generation", &self.pods_total),
            (
                "last_reconciled_timestamp",
                "When the last pass without error ended, in seconds since 1970",
                &self.last_reconciled,
            ),
        ]
    }

    /// Shows no engine: a standby has none to tell of.
    pub fn clear(&self) {
        self.status_phase.clear();
        self.status_condition.clear();
        self.drain_check_errors.clear();
        for (_, _, gauge) in self.plain() {
            gauge.clear();
        }
    }

    /// Shows every engine as the caches have it.
    pub fn fill(&self, caches: &Caches, reconciled: &Reconciled, drain_failures: impl Fn(&ObjectKey) -> u64) {
        self.clear();
        for engine in caches.engines.all() {
            if let Ok(engine) = &engine.0 {
                let key = ObjectKey::of(engine);
                self.show(engine, &key, pods_of(engine, &key, caches));
                let labels = Engine::of(engine, &key);
                if let Some(time) = reconciled.last(&key) {
                    self.last_reconciled.get_or_create(&labels).set(time.as_second());
                }
                self.drain_check_errors
                    .get_or_create(&labels)
                    .inc_by(drain_failures(&key));
            }
        }
    }

    fn show(&self, engine: &FireboltEngine, key: &ObjectKey, (ready, total): (i64, i64)) {
        let labels = Engine::of(engine, key);
        let status = engine.status.as_ref();
        for phase in EnginePhase::iter() {
            let holds = status.and_then(|status| status.phase) == Some(phase);
            let Engine {
                namespace,
                name,
                instance,
            } = labels.clone();
            let phase = phase.into();
            let labels = InPhase {
                namespace,
                name,
                instance,
                phase,
            };
            self.status_phase.get_or_create(&labels).set(i64::from(holds));
        }
        for condition in EngineCondition::iter() {
            let r#type: &'static str = condition.into();
            let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
            let holds = conditions
                .iter()
                .any(|known| known.type_ == r#type && known.status == "True");
            let Engine {
                namespace,
                name,
                instance,
            } = labels.clone();
            let labels = OfCondition {
                namespace,
                name,
                instance,
                r#type,
            };
            self.status_condition.get_or_create(&labels).set(i64::from(holds));
        }
        let set = |gauge: &Family<Engine, Gauge>, value: i64| gauge.get_or_create(&labels).set(value);
        let draining = status.and_then(|status| status.draining_generation);
        set(&self.spec_replicas, engine.spec.replicas.into());
        set(&self.active_generation, active(engine));
        set(&self.draining_generation, draining.unwrap_or(-1));
        set(&self.pods_ready, ready);
        set(&self.pods_total, total);
    }
}

fn active(engine: &FireboltEngine) -> i64 {
    engine.status.as_ref().map_or(-1, |status| status.active_generation)
}

/// Ready pods and all pods of the active generation.
fn pods_of(engine: &FireboltEngine, key: &ObjectKey, caches: &Caches) -> (i64, i64) {
    let name = EngineNames(&key.name).stateful_set(active(engine));
    let set = caches
        .of_engines
        .stateful_sets
        .get(&ObjectKey::new(&key.namespace, name));
    let Some(uid) = set.and_then(|set| set.0.as_ref().ok()?.metadata.uid.clone()) else {
        return (0, 0);
    };
    let (mut ready, mut total) = (0, 0);
    for pod in caches.of_engines.pods.belonging_to(key) {
        if let Ok(pod) = &pod.0
            && pods::is_of(pod, &uid)
            && !pods::is_terminating(pod)
        {
            total += 1;
            ready += i64::from(pods::is_ready(pod));
        }
    }
    (ready, total)
}
