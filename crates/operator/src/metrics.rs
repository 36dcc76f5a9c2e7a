//! The metrics of the operator, in the `OpenMetrics` text format.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use firebolt_runtime::client::RequestMetrics;
use firebolt_runtime::leader::Role;
use firebolt_runtime::reconciler::ReconcileMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::caches::Caches;
use crate::engine::EngineMetrics;
use crate::engine_class::EngineClassMetrics;
use crate::instance::InstanceMetrics;
use crate::probe::Pool;
use crate::process_metrics::ProcessMetrics;
use crate::status_gauges::{GaugeSources, KindGauges as _};
use crate::webhook::WebhookMetrics;

/// The prefix of metrics that no other operator has.
const PREFIX: &str = "firebolt_operator";

/// The media type of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    leader: Family<LeaseLabel, Gauge>,
    cached_objects: Family<KindLabel, Gauge>,
    malformed_objects: Family<KindLabel, Gauge>,
    watch_failures: Family<KindLabel, Counter>,
    requests: RequestMetrics,
    reconciles: ReconcileMetrics,
    engines: Arc<EngineMetrics>,
    instances: Arc<InstanceMetrics>,
    webhook: Arc<WebhookMetrics>,
    engine_classes: Arc<EngineClassMetrics>,
    /// Gauges are filled and read by one scrape at a time.
    rendering: Mutex<()>,
}

impl Metrics {
    /// Metrics of a process of this version that was started at this time.
    #[must_use]
    pub fn new(version: &'static str, started: SystemTime) -> Self {
        let (leader, cached_objects) = (Family::default(), Family::default());
        let (malformed_objects, watch_failures) = (Family::default(), Family::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(started)));
        let requests = RequestMetrics::register(&mut registry);
        registry.register(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
            leader.clone(),
        );
        let own = registry.sub_registry_with_prefix(PREFIX);
        own.register(
            "build",
            "The version of the operator",
            Info::new([("version", version)]),
        );
        own.register("cached_objects", "Objects in the caches", cached_objects.clone());
        own.register(
            "malformed_objects",
            "Objects that cannot be parsed and are not reconciled",
            malformed_objects.clone(),
        );
        own.register(
            "watch_failures",
            "Failed attempts to list or watch",
            watch_failures.clone(),
        );
        let reconciles = ReconcileMetrics::register(&mut registry, PREFIX);
        let engines = Arc::new(EngineMetrics::register(&mut registry, &reconciles));
        let instances = Arc::new(InstanceMetrics::register(&mut registry, &reconciles));
        let webhook = Arc::new(WebhookMetrics::register(&mut registry));
        let engine_classes = Arc::new(EngineClassMetrics::register(&mut registry, &reconciles));
        Self {
            registry,
            requests,
            reconciles,
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

    /// Counts the requests to the API server.
    #[must_use]
    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// The counter of failed attempts to list or watch a kind.
    #[must_use]
    pub(crate) fn watch_failures(&self, kind: &str) -> Counter {
        self.watch_failures
            .get_or_create_owned(&KindLabel { kind: kind.to_owned() })
    }

    /// The metrics of engines.
    #[must_use]
    pub(crate) fn engines(&self) -> &Arc<EngineMetrics> {
        &self.engines
    }

    /// The metrics of instances.
    #[must_use]
    pub(crate) fn instances(&self) -> &Arc<InstanceMetrics> {
        &self.instances
    }

    /// The metrics of admission.
    #[must_use]
    pub fn webhook(&self) -> &Arc<WebhookMetrics> {
        &self.webhook
    }

    /// The metrics of engine classes.
    #[must_use]
    pub(crate) fn engine_classes(&self) -> &Arc<EngineClassMetrics> {
        &self.engine_classes
    }

    /// All metrics as text. Role, sizes of the caches and the state of engines, instances and classes are read now. Only the
    /// leader exports the state of objects, so that they are not counted twice.
    #[must_use]
    pub(crate) fn render(&self, caches: &Caches, probes: &Pool, role: Role, lease: &str) -> String {
        let _one_at_a_time = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = LeaseLabel { name: lease.to_owned() };
        let leader = self.leader.get_or_create_owned(&lease);
        match role {
            Role::Standby => {
                leader.set(0);
            }
            Role::Leader => {
                leader.set(1);
                let sources = GaugeSources { caches, probes };
                let (engines, instances, classes) = (&self.engines, &self.instances, &self.engine_classes);
                engines.gauges.fill(sources, engines.kind.controller.last_success());
                instances.gauges.fill(sources, instances.kind.controller.last_success());
                classes.gauges.fill(sources, classes.kind.controller.last_success());
            }
        }
        self.count(caches);
        self.reconciles.refresh();
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        // Read again for the next scrape; they are not needed in between.
        self.engines.gauges.clear();
        self.instances.gauges.clear();
        self.engine_classes.gauges.clear();
        text
    }

    /// Sets the sizes of the caches. Those of one kind count together, regardless of their owner.
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
