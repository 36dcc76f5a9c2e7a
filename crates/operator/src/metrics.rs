//! What the operator counts, in the `OpenMetrics` text format.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::engine::EngineMetrics;
use crate::engine_class::EngineClassMetrics;
use crate::instance::InstanceMetrics;
use crate::leader::Role;
use crate::probe::Pool;
use crate::watches::Caches;
use crate::webhook::WebhookMetrics;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    leader: Gauge,
    cached_objects: Family<KindLabel, Gauge>,
    malformed_objects: Family<KindLabel, Gauge>,
    watch_failures: Family<KindLabel, Counter>,
    engines: EngineMetrics,
    instances: InstanceMetrics,
    webhook: WebhookMetrics,
    engine_classes: EngineClassMetrics,
    /// Gauges are filled and read in one go.
    rendering: Mutex<()>,
}

impl Metrics {
    /// Metrics of a process of this version that was started at this time.
    #[must_use]
    pub fn new(version: &'static str, started: SystemTime) -> Self {
        let (leader, cached_objects) = (Gauge::default(), Family::default());
        let (malformed_objects, watch_failures) = (Family::default(), Family::default());
        let start_time = Gauge::<f64, AtomicU64>::default();
        start_time.set(
            started
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or(Duration::ZERO)
                .as_secs_f64(),
        );

        let mut registry = Registry::default();
        registry.register(
            "process_start_time_seconds",
            "When the process was started, in seconds since 1970",
            start_time,
        );
        let own = registry.sub_registry_with_prefix("firebolt_operator");
        own.register(
            "build",
            "The version of the operator",
            Info::new([("version", version)]),
        );
        own.register("leader", "1 if this process leads, otherwise 0", leader.clone());
        own.register(
            "cached_objects",
            "Readable objects in the cache",
            cached_objects.clone(),
        );
        own.register(
            "malformed_objects",
            "Objects that cannot be read and are left alone",
            malformed_objects.clone(),
        );
        own.register(
            "watch_failures",
            "Failed attempts to list or watch",
            watch_failures.clone(),
        );
        let engines = EngineMetrics::register(&mut registry);
        let instances = InstanceMetrics::register(&mut registry);
        let webhook = WebhookMetrics::register(&mut registry);
        let engine_classes = EngineClassMetrics::register(&mut registry);
        Self {
            registry,
            engines,
            instances,
            webhook,
            engine_classes,
            rendering: Mutex::default(),
            leader,
            cached_objects,
            malformed_objects,
            watch_failures,
        }
    }

    /// The counter of failed attempts to list or watch a kind.
    #[must_use]
    pub fn watch_failures(&self, kind: &str) -> Counter {
        self.watch_failures
            .get_or_create_owned(&KindLabel { kind: kind.to_owned() })
    }

    /// What is measured about engines.
    #[must_use]
    pub fn engines(&self) -> &EngineMetrics {
        &self.engines
    }

    /// What is measured about instances.
    #[must_use]
    pub fn instances(&self) -> &InstanceMetrics {
        &self.instances
    }

    /// What is measured about admission.
    #[must_use]
    pub fn webhook(&self) -> &WebhookMetrics {
        &self.webhook
    }

    /// What is measured about engine classes.
    #[must_use]
    pub fn engine_classes(&self) -> &EngineClassMetrics {
        &self.engine_classes
    }

    /// All metrics as text. Role, sizes of the caches and the state of engines, instances and classes are read at this
    /// moment, so they need no upkeep. They are told of by the leader alone, so that nobody counts them twice.
    #[must_use]
    pub fn render(&self, caches: &Caches, probes: &Pool, role: Role) -> String {
        let _one_at_a_time = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        match role {
            Role::Standby => {
                self.leader.set(0);
            }
            Role::Leading => {
                self.leader.set(1);
                let drain_failures = |engine: &_| probes.drain_failures(engine);
                self.engines
                    .gauges
                    .fill(caches, &self.engines.work.reconciled, drain_failures);
                self.instances.gauges.fill(caches, &self.instances.work.reconciled);
                self.engine_classes
                    .gauges
                    .fill(caches, &self.engine_classes.work.reconciled);
            }
        }
        self.count(caches);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        // Read anew the next time; nobody needs them in between.
        self.engines.gauges.clear();
        self.instances.gauges.clear();
        self.engine_classes.gauges.clear();
        text
    }

    /// Shows the sizes of the caches. Those of one kind count together, whosever objects they hold.
    fn count(&self, caches: &Caches) {
        let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for cache in caches.all() {
            let (readable, malformed) = sizes.entry(cache.kind()).or_default();
            *readable += cache.readable();
            *malformed += cache.malformed();
        }
        let count = |objects: usize| i64::try_from(objects).unwrap_or(i64::MAX);
        for (kind, (readable, malformed)) in sizes {
            let label = KindLabel { kind };
            self.cached_objects.get_or_create(&label).set(count(readable));
            self.malformed_objects.get_or_create(&label).set(count(malformed));
        }
    }
}
