//! What is there: from the caches where a stale look is harmless, live where the next write cannot be undone.

use std::fmt::Debug;
use std::sync::Arc;

use firebolt_api::FireboltInstance;
use firebolt_core::plan::instance::Object;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::desired::Wish;
use super::objects::{Objects, named};
use crate::key::ObjectKey;
use crate::referring::{self, Referring};
use crate::watches::{Caches, Credentials, KnownSecret, Store, Watched};
use crate::write::{LONGEST_REQUEST, PassError, version_in};

/// What was found, before it is compared with what is wanted.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The objects.
    pub objects: Objects,
    /// The Secret with the credentials of the database.
    pub credentials: Credentials,
    /// The one of our own PostgreSQL, if another database is used by now. Looked for in live reads only.
    pub own_credentials: Option<Arc<KnownSecret>>,
    /// The claim with the data of PostgreSQL.
    pub claim: Option<PersistentVolumeClaim>,
    /// The engines that refer to the instance, by name.
    pub engines: Vec<String>,
}

impl Found {
    /// The version of the object of this kind and name.
    pub fn version(&self, kind: &str, name: &str) -> Option<String> {
        let secret = match &self.credentials {
            Credentials::Found(secret) => version_in([&**secret], kind, name),
            Credentials::Unknown(_) | Credentials::Missing => None,
        };
        secret.or_else(|| self.objects.version(kind, name))
    }
}

/// What the caches show. None if an object cannot be read: that must not look like an absence.
pub fn cached(caches: &Caches, key: &ObjectKey) -> Option<Found> {
    fn readable<K: Watched>(store: &Store<K>, key: &ObjectKey) -> Option<Vec<K>> {
        let objects = store.belonging_to(key);
        objects.iter().map(|object| object.0.as_ref().ok().cloned()).collect()
    }
    let own = &caches.of_instances;
    Some(Found {
        objects: Objects {
            stateful_sets: readable(&own.stateful_sets, key)?,
            deployments: readable(&own.deployments, key)?,
            services: readable(&own.services, key)?,
            config_maps: readable(&own.config_maps, key)?,
            service_accounts: readable(&own.service_accounts, key)?,
            roles: readable(&own.roles, key)?,
            role_bindings: readable(&own.role_bindings, key)?,
            disruption_budgets: readable(&own.disruption_budgets, key)?,
            pods: readable(&own.pods, key)?,
        },
        credentials: caches.credentials.get(key),
        own_credentials: None,
        claim: None,
        engines: cached_engines(caches, key),
    })
}

/// The pods that the caches show.
pub fn cached_pods(caches: &Caches, key: &ObjectKey) -> Vec<Pod> {
    let pods = caches.of_instances.pods.belonging_to(key);
    pods.iter().filter_map(|pod| pod.0.as_ref().ok().cloned()).collect()
}

/// The engines that refer to the instance, by what the caches show. One that cannot be read may refer to any.
pub fn cached_engines(caches: &Caches, key: &ObjectKey) -> Vec<String> {
    let referring = caches.engines.belonging_to(key);
    let mut names: Vec<String> = referring.iter().map(|engine| ObjectKey::of(&**engine).name).collect();
    names.extend(caches.engines.unreadable_in(&key.namespace));
    names.sort_unstable();
    names.dedup();
    names
}

/// What the API server says, but for engines, which are many. Found by name, because labels can be removed, and a name may
/// be taken by somebody else. Pods are told of only, so those of the caches will do.
pub async fn live(
    client: &Client,
    instance: &FireboltInstance,
    wish: &Wish,
    pods: Vec<Pod>,
) -> Result<Found, PassError> {
    let reads = Reads {
        client,
        key: ObjectKey::of(instance),
    };
    // Boxed, because it is large.
    reads.in_time(Box::pin(reads.everything(instance, wish, pods))).await
}

/// The engines that refer to the instance, by what the API server says. One that cannot be read may refer to any.
pub async fn live_engines(client: &Client, instance: &FireboltInstance) -> Result<Vec<String>, PassError> {
    let key = ObjectKey::of(instance);
    let referring = referring::live(client, &key, |engine| engine.spec.instance_ref == key.name);
    let Referring { bound, unreadable } = referring.await?;
    Ok([bound, unreadable].concat())
}

struct Reads<'a> {
    client: &'a Client,
    key: ObjectKey,
}

impl Reads<'_> {
    async fn in_time<T>(&self, read: impl Future<Output = Result<T, PassError>>) -> Result<T, PassError> {
        match tokio::time::timeout(LONGEST_REQUEST, read).await {
            Ok(found) => found,
            Err(_elapsed) => Err(PassError::TimedOut {
                verb: "read",
                kind: "objects of FireboltInstance".to_owned(),
                object: self.key.clone(),
                limit: LONGEST_REQUEST,
            }),
        }
    }

    async fn everything(&self, instance: &FireboltInstance, wish: &Wish, pods: Vec<Pod>) -> Result<Found, PassError> {
        use Object as O;
        let (stateful_sets, deployments, services, config_maps) = tokio::try_join!(
            self.all(&[O::PostgresSet]),
            self.all(&[O::MetadataDeployment, O::GatewayDeployment]),
            self.all(&[O::PostgresService, O::MetadataService, O::GatewayService]),
            self.all(&[O::MetadataConfig, O::GatewayConfig]),
        )?;
        let (service_accounts, roles, role_bindings, disruption_budgets) = tokio::try_join!(
            self.all(&[O::GatewayAccount]),
            self.all(&[O::GatewayRole]),
            self.all(&[O::GatewayRoleBinding]),
            self.all(&[O::GatewayBudget]),
        )?;
        let own_name = Object::PostgresCredentials.name(&self.key.name);
        let own_name = Some(own_name).filter(|name| *name != wish.wanted.credentials);
        let (secret, own_secret, claim) = tokio::try_join!(
            self.get::<Secret>(&wish.wanted.credentials),
            async {
                match &own_name {
                    Some(name) => self.get::<Secret>(name).await,
                    None => Ok(None),
                }
            },
            self.get::<PersistentVolumeClaim>(&wish.wanted.claim),
        )?;
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        Ok(Found {
            objects: Objects {
                stateful_sets,
                deployments,
                services,
                config_maps,
                service_accounts,
                roles,
                role_bindings,
                disruption_budgets,
                pods,
            },
            credentials: match secret {
                Some(secret) => Credentials::Found(sealed(secret, uid)),
                None => Credentials::Missing,
            },
            own_credentials: own_secret.map(|secret| sealed(secret, uid)),
            claim,
            engines: Vec::new(),
        })
    }

    async fn all<K>(&self, objects: &[Object]) -> Result<Vec<K>, PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut found = Vec::new();
        for object in objects {
            found.extend(self.get(&object.name(&self.key.name)).await?);
        }
        Ok(found)
    }

    async fn get<K>(&self, name: &str) -> Result<Option<K>, PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.key.namespace);
        let object = ObjectKey::new(&self.key.namespace, name);
        let read = api.get_opt(name).await;
        read.map_err(|error| PassError::read("get", &K::kind(&()), &object, error))
    }
}

/// Without what is secret in it.
fn sealed(secret: Secret, instance: &str) -> Arc<KnownSecret> {
    Arc::new(KnownSecret::of(secret, instance))
}

/// Whether Kubernetes gives the gateway addresses of IPv6.
pub fn has_ipv6(objects: &Objects, name: &str) -> bool {
    let service: Option<&Service> = named(&objects.services, name);
    let families = service.and_then(|service| service.spec.as_ref()?.ip_families.as_ref());
    families.into_iter().flatten().any(|family| family == "IPv6")
}
