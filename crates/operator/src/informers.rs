//! Which kinds are watched, and which event handlers see their changes.

use std::sync::Arc;
use std::time::Duration;

use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{self, Cache, Change, EventHandler, Index, InformerOptions, Store};
use firebolt_runtime::queue::PendingSet;
use kube::{Client, Resource};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::caches::{
    Caches, ENGINES_BY_CLASS, ENGINES_BY_INSTANCE, KnownSecret, OfEngines, OfInstances, OwnerKind, Prune,
    WatchedCredentials, by_engine, by_instance, explain, prune,
};
use crate::engine::triggers as engine;
use crate::engine_class::triggers as engine_class;
use crate::instance::triggers as instance;
use crate::metrics::Metrics;
use crate::pending::Pending;
use crate::settings::Settings;
use crate::triggers;

/// The longest delay between two attempts. When the CRDs are installed late, the operator is ready within this time.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// How the watches of all kinds are started.
struct Informers<'a> {
    client: &'a Client,
    settings: &'a Settings,
    metrics: &'a Metrics,
    tasks: &'a mut JoinSet<()>,
    synced: Arc<watch::Sender<()>>,
}

/// Starts the watches as tasks of `tasks`. The caches fill from here on, and the objects to reconcile become `pending`.
pub fn start(
    client: &Client,
    settings: &Settings,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
    pending: &Pending,
) -> Caches {
    let (synced, list_completed) = watch::channel(());
    let mut informers = Informers {
        client,
        settings,
        metrics,
        tasks,
        synced: Arc::new(synced),
    };
    let engines = Arc::new(Store::new([ENGINES_BY_INSTANCE, ENGINES_BY_CLASS]));
    let engine_classes = Arc::new(Store::new([]));
    Caches {
        engines: informers.kind(
            OwnerKind::None,
            &engines,
            both(
                engine::of_engine(&pending.engines),
                both(
                    instance::of_engine(&pending.instances),
                    engine_class::of_engine(&engine_classes, &pending.engine_classes),
                ),
            ),
        ),
        instances: informers.kind(
            OwnerKind::None,
            &Arc::new(Store::new([])),
            both(
                engine::of_instance(&engines, &pending.engines),
                triggers::of_object(&pending.instances),
            ),
        ),
        engine_classes: informers.kind(
            OwnerKind::None,
            &engine_classes,
            both(
                engine::of_engine_class(&engines, &pending.engines),
                triggers::of_object(&pending.engine_classes),
            ),
        ),
        of_engines: informers.of_engines(pending),
        of_instances: informers.of_instances(pending),
        credentials: WatchedCredentials::new(
            client.clone(),
            Arc::clone(&pending.instances),
            metrics.watch_failures(&KnownSecret::kind(&())),
        ),
        list_completed,
    }
}

impl Informers<'_> {
    fn of_engines(&mut self, pending: &Pending) -> OfEngines {
        let pending = &pending.engines;
        OfEngines {
            stateful_sets: self.owned(OwnerKind::Engine, by_engine(), pending),
            services: self.owned(OwnerKind::Engine, by_engine(), pending),
            config_maps: self.owned(OwnerKind::Engine, by_engine(), pending),
            pods: self.owned(OwnerKind::Engine, by_engine(), pending),
        }
    }

    fn of_instances(&mut self, pending: &Pending) -> OfInstances {
        let pending = &pending.instances;
        OfInstances {
            stateful_sets: self.owned(OwnerKind::Instance, by_instance(), pending),
            deployments: self.owned(OwnerKind::Instance, by_instance(), pending),
            services: self.owned(OwnerKind::Instance, by_instance(), pending),
            config_maps: self.owned(OwnerKind::Instance, by_instance(), pending),
            service_accounts: self.owned(OwnerKind::Instance, by_instance(), pending),
            roles: self.owned(OwnerKind::Instance, by_instance(), pending),
            role_bindings: self.owned(OwnerKind::Instance, by_instance(), pending),
            disruption_budgets: self.owned(OwnerKind::Instance, by_instance(), pending),
            pods: self.owned(OwnerKind::Instance, by_instance(), pending),
        }
    }

    fn owned<K: Prune>(
        &mut self,
        owner_kind: OwnerKind,
        index: Index<K>,
        pending: &Arc<PendingSet<ObjectKey>>,
    ) -> Cache<K> {
        let handler = triggers::of_child(index, pending);
        self.kind(owner_kind, &Arc::new(Store::new([index])), handler)
    }

    fn kind<K: Prune>(
        &mut self,
        owner_kind: OwnerKind,
        store: &Arc<Store<K>>,
        handler: impl EventHandler<K> + Clone,
    ) -> Cache<K> {
        let kind = K::kind(&());
        let Settings { scope, selector, .. } = self.settings;
        let (label_selector, has_user_selector) = match owner_kind.label() {
            Some(label) => (Some(label.key().to_owned()), false),
            None => (selector.to_parameter(), !selector.selects_everything()),
        };
        let options = InformerOptions {
            client: self.client,
            namespaces: scope.streams().collect(),
            label_selector,
            has_user_selector,
            store: Arc::clone(store),
            handler,
            prune: move |object: &mut _| prune(object, owner_kind),
            subject: owner_kind.describe(&kind),
            explain,
            longest_delay: LONGEST_DELAY,
            failures: self.metrics.watch_failures(&kind),
            synced: Arc::clone(&self.synced),
        };
        informer::start(options, self.tasks)
    }
}

/// Calls both event handlers for every change.
fn both<K: 'static>(
    first: impl EventHandler<K> + Clone,
    second: impl EventHandler<K> + Clone,
) -> impl EventHandler<K> + Clone {
    move |change: &Change<K>| {
        first(change);
        second(change);
    }
}
