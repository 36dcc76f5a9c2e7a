//! The gauges of each engine.

use firebolt_api::FireboltEngine;
use firebolt_api::condition::EngineCondition;
use firebolt_api::name::EngineNames;
use firebolt_core::pods;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::Store;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::caches::{Caches, by_engine};
use crate::status_gauges::{GaugeSources, KindGauges, Labels, ObjectGauge, StatusGauges, set};

/// One set of gauges per engine.
#[derive(Debug)]
pub(crate) struct EngineGauges {
    status: StatusGauges,
    spec_replicas: ObjectGauge,
    active_generation: ObjectGauge,
    draining_generation: ObjectGauge,
    pods_ready: ObjectGauge,
    pods_total: ObjectGauge,
    drain_check_errors: Family<Labels, Counter>,
}

impl EngineGauges {
    /// Registers the gauges under the prefix of the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            status: StatusGauges::register_with_phases(registry),
            spec_replicas: ObjectGauge::default(),
            active_generation: ObjectGauge::default(),
            draining_generation: ObjectGauge::default(),
            pods_ready: ObjectGauge::default(),
            pods_total: ObjectGauge::default(),
            drain_check_errors: Family::default(),
        };
        registry.register(
            "drain_check_errors",
            "Total number of failed attempts to count the queries of a draining generation",
            gauges.drain_check_errors.clone(),
        );
        for (name, help, gauge) in gauges.plain() {
            registry.register(name, help, gauge.clone());
        }
        gauges
    }

    fn plain(&self) -> [(&'static str, &'static str, &ObjectGauge); 5] {
        [
            ("spec_replicas", "The value of spec.replicas", &self.spec_replicas),
            (
                "active_generation",
                "The generation that the routing Service selects, -1 before the first",
                &self.active_generation,
            ),
            (
                "draining_generation",
                "The generation that is draining, -1 if none",
                &self.draining_generation,
            ),
            ("pods_ready", "Ready pods of the active generation", &self.pods_ready),
            ("pods_total", "Pods of the active generation", &self.pods_total),
        ]
    }
}

impl KindGauges for EngineGauges {
    type Object = FireboltEngine;

    fn objects<'a>(&self, caches: &'a Caches) -> &'a Store<FireboltEngine> {
        caches.engines.store()
    }

    fn status(&self) -> &StatusGauges {
        &self.status
    }

    fn labels(&self, engine: &FireboltEngine, key: &ObjectKey) -> Labels {
        vec![
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("instance", engine.spec.instance_ref.clone()),
        ]
    }

    fn show(&self, engine: &FireboltEngine, key: &ObjectKey, labels: &Labels, sources: GaugeSources) {
        let status = engine.status.as_ref();
        self.status.set_phase(labels, status.and_then(|status| status.phase));
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        self.status.set_conditions::<EngineCondition>(labels, conditions);
        let draining = status.and_then(|status| status.draining_generation);
        let (total, ready) = pods_of(engine, key, sources.caches);
        set(&self.spec_replicas, labels, engine.spec.replicas.into());
        set(&self.active_generation, labels, active(engine));
        set(&self.draining_generation, labels, draining.unwrap_or(-1));
        set(&self.pods_ready, labels, ready.into());
        set(&self.pods_total, labels, total.into());
        let drain_failures = sources.probes.drain_failures(key);
        self.drain_check_errors.get_or_create(labels).inc_by(drain_failures);
    }

    fn clear(&self) {
        self.status.clear();
        self.drain_check_errors.clear();
        for (_, _, gauge) in self.plain() {
            gauge.clear();
        }
    }
}

fn active(engine: &FireboltEngine) -> i64 {
    engine.status.as_ref().map_or(-1, |status| status.active_generation)
}

/// All pods of the active generation, and how many of them are ready.
fn pods_of(engine: &FireboltEngine, key: &ObjectKey, caches: &Caches) -> (i32, i32) {
    let name = EngineNames(&key.name).stateful_set(active(engine));
    let set = caches
        .of_engines
        .stateful_sets
        .get(&ObjectKey::new(&key.namespace, name));
    let Some(uid) = set.and_then(|set| set.0.as_ref().ok()?.metadata.uid.clone()) else {
        return (0, 0);
    };
    let pods = caches.of_engines.pods.by_index(by_engine(), key);
    pods::count(&uid, pods.iter().filter_map(|pod| pod.0.as_ref().ok()))
}
