//! Which kinds are watched for whom, and who hears of their changes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::runtime::watcher::Config;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cache::{Cache, CacheStatus, Stream, StreamState, Sync};
use super::credentials::FollowedCredentials;
use super::family::Family;
use super::follow::{Follower, Listener};
use super::guard::Guarded;
use super::kinds::Watched;
use super::malformed::MalformedObjects;
use super::secrets::KnownSecret;
use super::store::{Change, Feed, Store};
use super::trouble::Incidents;
use crate::backoff::RetryBackoff;
use crate::engine::watches as engine;
use crate::engine_class::watches as engine_class;
use crate::instance::watches as instance;
use crate::metrics::Metrics;
use crate::queue::Inboxes;
use crate::settings::Settings;
use crate::write::Fields;

/// The longest pause between two attempts. After the definitions are installed, readiness follows within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What `kubectl apply` keeps for itself: a second copy of the object that nobody here reads.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One cache per kind and family.
#[derive(Debug)]
pub struct Caches {
    /// Engines. They belong to the instance that they refer to, and are of the class that they refer to.
    pub engines: Cache<FireboltEngine>,
    /// Instances.
    pub instances: Cache<FireboltInstance>,
    /// Engine classes.
    pub engine_classes: Cache<FireboltEngineClass>,
    /// What engines own.
    pub of_engines: OfEngines,
    /// What instances own.
    pub of_instances: OfInstances,
    /// The Secrets that instances read. Watched as they are asked for, so no part of [`Self::synced`].
    pub credentials: FollowedCredentials,
    /// Told whenever a first list is complete.
    completed: watch::Receiver<()>,
}

/// What engines own.
#[derive(Debug)]
pub struct OfEngines {
    /// The StatefulSet of each generation.
    pub stateful_sets: Cache<StatefulSet>,
    /// The routing Service of each engine, and the headless one of each generation.
    pub services: Cache<Service>,
    /// The ConfigMap of each generation.
    pub config_maps: Cache<ConfigMap>,
    /// Pods.
    pub pods: Cache<Pod>,
}

/// What instances own.
#[derive(Debug)]
pub struct OfInstances {
    /// PostgreSQL.
    pub stateful_sets: Cache<StatefulSet>,
    /// The metadata service and the gateway.
    pub deployments: Cache<Deployment>,
    /// The Service of each component.
    pub services: Cache<Service>,
    /// The configuration of the metadata service and of the gateway.
    pub config_maps: Cache<ConfigMap>,
    /// The account of the gateway.
    pub service_accounts: Cache<ServiceAccount>,
    /// What it may do.
    pub roles: Cache<Role>,
    /// That it may.
    pub role_bindings: Cache<RoleBinding>,
    /// How many pods of the gateway may be disturbed at once.
    pub disruption_budgets: Cache<PodDisruptionBudget>,
    /// Pods of all components.
    pub pods: Cache<Pod>,
}

/// Where and how watches run.
struct Start<'a> {
    client: &'a Client,
    settings: &'a Settings,
    metrics: &'a Metrics,
    tasks: &'a mut JoinSet<()>,
    completed: Arc<watch::Sender<()>>,
}

impl Caches {
    /// Starts the watches as tasks of `tasks`. The caches fill from here on, and objects that something changed for are
    /// put into the inbox of their kind.
    pub fn start(
        client: &Client,
        settings: &Settings,
        metrics: &Metrics,
        tasks: &mut JoinSet<()>,
        inboxes: &Inboxes,
    ) -> Self {
        let (completed, completions) = watch::channel(());
        let mut start = Start {
            client,
            settings,
            metrics,
            tasks,
            completed: Arc::new(completed),
        };
        let (engines, engine_classes) = (Arc::new(Store::of(Family::Root)), Arc::new(Store::of(Family::Root)));
        let failures = metrics.watch_failures(&KnownSecret::kind(&()));
        Self {
            engines: start.kind(
                Family::Root,
                &engines,
                both(
                    engine::of_engine(&inboxes.engines),
                    both(
                        instance::of_engine(&inboxes.instances),
                        engine_class::of_engine(&engine_classes, &inboxes.engine_classes),
                    ),
                ),
            ),
            instances: start.roots(both(
                engine::of_instance(&engines, &inboxes.engines),
                instance::of_instance(&inboxes.instances),
            )),
            engine_classes: start.kind(
                Family::Root,
                &engine_classes,
                both(
                    engine::of_engine_class(&engines, &inboxes.engines),
                    engine_class::of_engine_class(&inboxes.engine_classes),
                ),
            ),
            of_engines: start.of_engines(inboxes),
            of_instances: start.of_instances(inboxes),
            credentials: FollowedCredentials::new(client.clone(), Arc::clone(&inboxes.instances), failures),
            completed: completions,
        }
    }

    /// Waits until every cache is complete.
    pub async fn synced(&self) {
        let mut completed = self.completed.clone();
        while self.all().iter().any(|cache| !cache.missing().is_empty()) {
            if completed.changed().await.is_err() {
                // The watches have ended, and with them the process.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The caches in a fixed order, for health and metrics.
    #[must_use]
    pub fn all(&self) -> [&(dyn CacheStatus + Send + std::marker::Sync); 16] {
        let Self {
            engines,
            instances,
            engine_classes,
            of_engines,
            of_instances,
            credentials: _,
            completed: _,
        } = self;
        [
            engines,
            instances,
            engine_classes,
            &of_engines.stateful_sets,
            &of_engines.services,
            &of_engines.config_maps,
            &of_engines.pods,
            &of_instances.stateful_sets,
            &of_instances.deployments,
            &of_instances.services,
            &of_instances.config_maps,
            &of_instances.service_accounts,
            &of_instances.roles,
            &of_instances.role_bindings,
            &of_instances.disruption_budgets,
            &of_instances.pods,
        ]
    }
}

impl Start<'_> {
    fn of_engines(&mut self, inboxes: &Inboxes) -> OfEngines {
        let inbox = &inboxes.engines;
        OfEngines {
            stateful_sets: self.children(Family::OfEngines, engine::of_child(inbox)),
            services: self.children(Family::OfEngines, engine::of_child(inbox)),
            config_maps: self.children(Family::OfEngines, engine::of_child(inbox)),
            pods: self.children(Family::OfEngines, engine::of_child(inbox)),
        }
    }

    fn of_instances(&mut self, inboxes: &Inboxes) -> OfInstances {
        let inbox = &inboxes.instances;
        OfInstances {
            stateful_sets: self.children(Family::OfInstances, instance::of_child(inbox)),
            deployments: self.children(Family::OfInstances, instance::of_child(inbox)),
            services: self.children(Family::OfInstances, instance::of_child(inbox)),
            config_maps: self.children(Family::OfInstances, instance::of_child(inbox)),
            service_accounts: self.children(Family::OfInstances, instance::of_child(inbox)),
            roles: self.children(Family::OfInstances, instance::of_child(inbox)),
            role_bindings: self.children(Family::OfInstances, instance::of_child(inbox)),
            disruption_budgets: self.children(Family::OfInstances, instance::of_child(inbox)),
            pods: self.children(Family::OfInstances, instance::of_child(inbox)),
        }
    }

    fn roots<K: Watched>(&mut self, listener: impl Listener<K> + Clone) -> Cache<K> {
        self.children(Family::Root, listener)
    }

    fn children<K: Watched>(&mut self, family: Family, listener: impl Listener<K> + Clone) -> Cache<K> {
        self.kind(family, &Arc::new(Store::of(family)), listener)
    }

    fn kind<K: Watched>(
        &mut self,
        family: Family,
        store: &Arc<Store<K>>,
        listener: impl Listener<K> + Clone,
    ) -> Cache<K> {
        let kind = K::kind(&());
        let failures = self.metrics.watch_failures(&kind);
        let config = Config {
            label_selector: family.selector(self.settings),
            ..Config::default()
        };
        let streams = self.settings.scope.streams().map(|namespace| {
            let api: Api<Guarded<K>> = match namespace {
                Some(namespace) => Api::namespaced(self.client.clone(), namespace),
                None => Api::all(self.client.clone()),
            };
            let state = StreamState {
                sync: Sync::Listing,
                malformed: MalformedObjects::default(),
            };
            let state = Arc::new(Mutex::new(state));
            let follower = Follower {
                subject: family.describe(&kind, namespace),
                feed: Feed::new(Arc::clone(store), namespace),
                listener: listener.clone(),
                state: Arc::clone(&state),
                selector: family.users_selector(self.settings),
                incidents: Incidents::with_pauses_up_to(LONGEST_PAUSE),
                failures: failures.clone(),
                completed: Arc::clone(&self.completed),
            };
            let events = watcher(api, config.clone())
                .backoff(RetryBackoff::up_to(LONGEST_PAUSE))
                .modify(move |object| prune(object, family));
            self.tasks.spawn(follower.follow(events));
            Stream {
                namespace: namespace.map(str::to_owned),
                state,
            }
        });
        Cache {
            family,
            streams: streams.collect(),
            store: Arc::clone(store),
        }
    }
}

/// Lets two hear of the same changes.
fn both<K: 'static>(first: impl Listener<K> + Clone, second: impl Listener<K> + Clone) -> impl Listener<K> + Clone {
    move |change: &Change<K>| {
        first(change);
        second(change);
    }
}

fn prune<K: Watched>(object: &mut Guarded<K>, family: Family) {
    match family {
        Family::Root | Family::OfEngines => object.managed_fields_mut().clear(),
        // Whether there is something to hand over before the object is applied to.
        Family::OfInstances => Fields::prune(object.managed_fields_mut()),
    }
    object.annotations_mut().remove(LAST_APPLIED);
    if let Ok(object) = &mut object.0 {
        object.prune(family);
    }
}
