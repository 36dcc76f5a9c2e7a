//! The caches that reconciles read: objects of the three kinds, and the objects that engines and instances own. Informers
//! keep them up to date on leader and standby alike.

mod credentials;
mod engine_indexes;
mod owner_kind;
mod prune;
mod secret;
mod watch_error;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_runtime::informer::{Cache, CacheStatus};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use tokio::sync::watch;

pub use self::credentials::{CachedCredentials, WatchedCredentials};
#[cfg(test)]
pub(crate) use self::engine_indexes::engine_store;
pub(crate) use self::engine_indexes::{ENGINES_BY_CLASS, ENGINES_BY_INSTANCE};
pub(crate) use self::owner_kind::{OwnerKind, by_engine, by_instance};
pub(crate) use self::prune::{Prune, prune};
pub use self::secret::{KeyState, KnownSecret};
pub(crate) use self::watch_error::explain;

/// One cache per kind and owner kind.
#[derive(Debug)]
pub struct Caches {
    /// Engines.
    pub engines: Cache<FireboltEngine>,
    /// Instances.
    pub instances: Cache<FireboltInstance>,
    /// Engine classes.
    pub(crate) engine_classes: Cache<FireboltEngineClass>,
    /// The objects that engines own.
    pub of_engines: OfEngines,
    /// The objects that instances own.
    pub(crate) of_instances: OfInstances,
    /// The Secrets that instances reference. They are watched on demand and are not part of [`Self::synced`].
    pub credentials: WatchedCredentials,
    /// Is notified when a first list is complete.
    pub(crate) list_completed: watch::Receiver<()>,
}

/// The objects that engines own.
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

/// The objects that instances own.
#[derive(Debug)]
pub(crate) struct OfInstances {
    /// PostgreSQL.
    pub stateful_sets: Cache<StatefulSet>,
    /// The metadata service and the gateway.
    pub deployments: Cache<Deployment>,
    /// The Service of each component.
    pub services: Cache<Service>,
    /// The configuration of the metadata service and of the gateway.
    pub config_maps: Cache<ConfigMap>,
    /// The ServiceAccount of the gateway.
    pub service_accounts: Cache<ServiceAccount>,
    /// Its Role.
    pub roles: Cache<Role>,
    /// The binding of both.
    pub role_bindings: Cache<RoleBinding>,
    /// The PodDisruptionBudget of the gateway.
    pub disruption_budgets: Cache<PodDisruptionBudget>,
    /// Pods of all components.
    pub pods: Cache<Pod>,
}

impl Caches {
    /// Waits until every cache is synced.
    pub async fn synced(&self) {
        let mut list_completed = self.list_completed.clone();
        while self.all().iter().any(|cache| !cache.missing().is_empty()) {
            if list_completed.changed().await.is_err() {
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
            list_completed: _,
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
