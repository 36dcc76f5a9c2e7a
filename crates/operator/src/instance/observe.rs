//! All reads of a reconcile: from the caches where an outdated read is harmless, live where the next write cannot be undone.

use std::fmt::Debug;

use firebolt_api::{FireboltInstance, InstancePhase};
use firebolt_core::compare::instance::{InstanceObjects, InstanceSnapshot, SecretLookup, SecretOutline};
use firebolt_core::plan::Reads;
use firebolt_core::plan::instance::InstanceObject;
use firebolt_core::render::instance::postgres_claim_name;
use firebolt_core::resolve::instance::credentials_secret;
use firebolt_runtime::write::version_in;
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::reconciler::InstanceReconciler;
use super::state::State;
use crate::caches::{CachedCredentials, Caches, ENGINES_BY_INSTANCE, KeyState, KnownSecret, by_instance};
use crate::engine_references::{self, EngineReferences};
use crate::observation::{CachedChildren, Observation, get, in_time, readable, trusted};

impl InstanceReconciler {
    /// Reads everything that a plan is made from, as far as `reads` allows in the caches.
    pub(super) async fn observe(
        &self,
        instance: &FireboltInstance,
        reads: Reads,
        state: &mut State,
    ) -> Result<Observation<InstanceSnapshot>, ReconcileError> {
        let caches = &self.shared.context.caches;
        let (key, uid) = (ObjectKey::of(instance), instance.uid().unwrap_or_default());
        caches
            .credentials
            .watch(&key, &uid, Some(&credentials_secret(instance)));
        let children = match reads {
            // The object that blocks it may not be in the caches.
            Reads::Cached if has_failed(instance) => CachedChildren::Untrusted,
            Reads::Cached => cached_children(caches, &key, state),
            Reads::LiveChildren | Reads::Live => CachedChildren::Untrusted,
        };
        let (reads, children) = match children {
            CachedChildren::Trusted(children) => (reads, *children),
            CachedChildren::Behind(left) => return Ok(Observation::CachesBehind(left)),
            CachedChildren::Untrusted => {
                let live = Box::pin(self.live_children(instance)).await?;
                (reads.max(Reads::LiveChildren), live)
            }
        };
        let engines = match reads {
            Reads::Cached | Reads::LiveChildren => cached_engines(caches, &key),
            Reads::Live => live_engines(&self.shared.context.client, instance).await?,
        };
        let InstanceChildren {
            objects,
            credentials,
            own_credentials,
            claim,
        } = children;
        Ok(Observation::Complete(Box::new(InstanceSnapshot {
            at: Timestamp::now(),
            reads,
            objects,
            credentials,
            own_credentials,
            claim,
            engines,
        })))
    }

    /// The children from the API server. Found by name, because labels can be removed, and a name may be taken by another
    /// object. Pods are only reported, so those in the caches will do.
    async fn live_children(&self, instance: &FireboltInstance) -> Result<InstanceChildren, ReconcileError> {
        let key = ObjectKey::of(instance);
        let pods = cached_pods(&self.shared.context.caches, &key);
        let client = &self.shared.context.client;
        let reads = LiveReads { client, key: &key };
        // Boxed, because it is large.
        let everything = Box::pin(reads.everything(instance, pods));
        in_time("read", "objects of FireboltInstance", key.clone(), everything).await
    }
}

/// What exists of an instance.
struct InstanceChildren {
    objects: InstanceObjects,
    credentials: SecretLookup,
    /// Read live only.
    own_credentials: Option<SecretOutline>,
    /// Read live only.
    claim: Option<PersistentVolumeClaim>,
}

fn has_failed(instance: &FireboltInstance) -> bool {
    let phase = instance.status.as_ref().and_then(|status| status.phase);
    phase == Some(InstancePhase::Failed)
}

fn cached_children(caches: &Caches, key: &ObjectKey, state: &mut State) -> CachedChildren<InstanceChildren> {
    match cached(caches, key) {
        // Credentials that were not looked for yet must not look as if there were none.
        None
        | Some(InstanceChildren {
            credentials: SecretLookup::Unknown,
            ..
        }) => CachedChildren::Untrusted,
        Some(children) => trusted(children, &mut state.expectations, version),
    }
}

/// The version in which the object of this kind and name was read.
fn version(children: &InstanceChildren, kind: &str, name: &str) -> Option<String> {
    let objects = &children.objects;
    let secret = match &children.credentials {
        SecretLookup::Found(secret) if kind == "Secret" && secret.metadata.name.as_deref() == Some(name) => {
            secret.metadata.resource_version.clone()
        }
        SecretLookup::Found(_) | SecretLookup::Unknown | SecretLookup::Unreadable(_) | SecretLookup::Missing => None,
    };
    secret
        .or_else(|| version_in(&objects.stateful_sets, kind, name))
        .or_else(|| version_in(&objects.deployments, kind, name))
        .or_else(|| version_in(&objects.services, kind, name))
        .or_else(|| version_in(&objects.config_maps, kind, name))
        .or_else(|| version_in(&objects.service_accounts, kind, name))
        .or_else(|| version_in(&objects.roles, kind, name))
        .or_else(|| version_in(&objects.role_bindings, kind, name))
        .or_else(|| version_in(&objects.disruption_budgets, kind, name))
}

/// The children in the caches; `None` if one of them cannot be read.
fn cached(caches: &Caches, key: &ObjectKey) -> Option<InstanceChildren> {
    let own = &caches.of_instances;
    Some(InstanceChildren {
        objects: InstanceObjects {
            stateful_sets: readable(&own.stateful_sets, by_instance(), key)?,
            deployments: readable(&own.deployments, by_instance(), key)?,
            services: readable(&own.services, by_instance(), key)?,
            config_maps: readable(&own.config_maps, by_instance(), key)?,
            service_accounts: readable(&own.service_accounts, by_instance(), key)?,
            roles: readable(&own.roles, by_instance(), key)?,
            role_bindings: readable(&own.role_bindings, by_instance(), key)?,
            disruption_budgets: readable(&own.disruption_budgets, by_instance(), key)?,
            pods: readable(&own.pods, by_instance(), key)?,
        },
        credentials: looked_up(&caches.credentials.get(key)),
        own_credentials: None,
        claim: None,
    })
}

/// The pods in the caches.
fn cached_pods(caches: &Caches, key: &ObjectKey) -> Vec<Pod> {
    let pods = caches.of_instances.pods.by_index(by_instance(), key);
    pods.iter().filter_map(|pod| pod.0.as_ref().ok().cloned()).collect()
}

/// The engines in the caches that reference the instance. An engine that cannot be read may reference any.
fn cached_engines(caches: &Caches, key: &ObjectKey) -> Vec<String> {
    let mut names = caches.engines.names_by_index(ENGINES_BY_INSTANCE, key);
    names.extend(caches.engines.unreadable_in(&key.namespace));
    names.sort_unstable();
    names.dedup();
    names
}

/// The engines in the API server that reference the instance. An engine that cannot be read may reference any.
async fn live_engines(client: &Client, instance: &FireboltInstance) -> Result<Vec<String>, ReconcileError> {
    let key = ObjectKey::of(instance);
    let references = engine_references::live(client, &key, |engine| engine.spec.instance_ref == key.name);
    let EngineReferences { bound, unreadable } = references.await?;
    Ok([bound, unreadable].concat())
}

struct LiveReads<'a> {
    client: &'a Client,
    key: &'a ObjectKey,
}

impl LiveReads<'_> {
    async fn everything(
        &self,
        instance: &FireboltInstance,
        pods: Vec<Pod>,
    ) -> Result<InstanceChildren, ReconcileError> {
        use InstanceObject as O;
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
        let secret_name = credentials_secret(instance);
        let own_name =
            Some(InstanceObject::PostgresCredentials.name(&self.key.name)).filter(|name| *name != secret_name);
        let claim_name = postgres_claim_name(&self.key.name);
        let (secret, own_secret, claim) = tokio::try_join!(
            self.get::<Secret>(&secret_name),
            async {
                match &own_name {
                    Some(name) => self.get::<Secret>(name).await,
                    None => Ok(None),
                }
            },
            self.get::<PersistentVolumeClaim>(&claim_name),
        )?;
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        Ok(InstanceChildren {
            objects: InstanceObjects {
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
                Some(secret) => SecretLookup::Found(Box::new(outline(&KnownSecret::of(secret, uid)))),
                None => SecretLookup::Missing,
            },
            own_credentials: own_secret.map(|secret| outline(&KnownSecret::of(secret, uid))),
            claim,
        })
    }

    async fn all<K>(&self, objects: &[InstanceObject]) -> Result<Vec<K>, ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut found = Vec::new();
        for object in objects {
            found.extend(self.get(&object.name(&self.key.name)).await?);
        }
        Ok(found)
    }

    async fn get<K>(&self, name: &str) -> Result<Option<K>, ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        get(self.client, &self.key.namespace, name).await
    }
}

/// The Secret as last seen by its watch.
fn looked_up(credentials: &CachedCredentials) -> SecretLookup {
    match credentials {
        CachedCredentials::Unknown(None) => SecretLookup::Unknown,
        CachedCredentials::Unknown(Some(why)) => SecretLookup::Unreadable(why.clone()),
        CachedCredentials::Missing => SecretLookup::Missing,
        CachedCredentials::Found(secret) => SecretLookup::Found(Box::new(outline(secret))),
    }
}

fn outline(secret: &KnownSecret) -> SecretOutline {
    let has_value = |state: &KeyState| match state {
        KeyState::Filled => true,
        KeyState::Empty => false,
    };
    SecretOutline {
        metadata: secret.metadata.clone(),
        keys: secret
            .keys
            .iter()
            .map(|(key, state)| (key.clone(), has_value(state)))
            .collect(),
        username: secret.username.clone(),
        database: secret.database.clone(),
        credentials_hash: secret.credentials_hash.clone(),
    }
}
