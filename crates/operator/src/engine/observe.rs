//! All reads of a reconcile: from the caches where an outdated read is harmless, live where the next write cannot be undone.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::compare::engine::{EngineObjects, EngineSnapshot, is_unrouted, short_of_pods};
use firebolt_core::compare::warning::newest_warning;
use firebolt_core::desired::Lookup;
use firebolt_core::desired::engine::References;
use firebolt_core::plan::Reads;
use firebolt_core::plan::engine::{EVENTS_INTERVAL, StatefulSetWarning};
use firebolt_runtime::error::describe;
use firebolt_runtime::informer::{Store, Watched};
use firebolt_runtime::write::version_in;
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::debug;

use super::reconciler::EngineReconciler;
use super::state::{ListedWarning, State};
use crate::caches::{Caches, by_engine};
use crate::observation::{CachedChildren, Observation, get, in_time, readable, trusted};

/// How long a list of events may delay the reconcile, which has more important things to do.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(2);
/// Kubernetes merges events that repeat themselves; a StatefulSet has few different ones.
const MOST_EVENTS: u32 = 32;

impl EngineReconciler {
    /// Reads everything that a plan is made from, as far as `reads` allows in the caches.
    pub(super) async fn observe(
        &self,
        engine: &FireboltEngine,
        reads: Reads,
        state: &mut State,
    ) -> Result<Observation<EngineSnapshot>, ReconcileError> {
        let key = ObjectKey::of(engine);
        let cached = match reads {
            Reads::Cached => cached_children(&self.shared.context.caches, &key, state),
            Reads::LiveChildren | Reads::Live => CachedChildren::Untrusted,
        };
        let (reads, objects) = match cached {
            CachedChildren::Trusted(objects) => (reads, *objects),
            CachedChildren::Behind(left) => return Ok(Observation::CachesBehind(left)),
            CachedChildren::Untrusted => (reads.max(Reads::LiveChildren), self.live_children(engine, state).await?),
        };
        let references = match reads {
            Reads::Cached | Reads::LiveChildren => cached_references(engine, &self.shared.context.caches),
            Reads::Live => live_references(&self.shared.context.client, engine).await?,
        };
        let now = Timestamp::now();
        state.own.observe_route(is_unrouted(engine, &objects), now);
        Ok(Observation::Complete(Box::new(EngineSnapshot {
            at: now,
            reads,
            references,
            drain: self.probes.drain_sample(&key),
            unrouted_since: state.own.unrouted_since,
            activity: self.probes.activity_sample(&key),
            warning: self.warning(engine, &objects, state, now).await,
            objects,
        })))
    }

    async fn live_children(&self, engine: &FireboltEngine, state: &State) -> Result<EngineObjects, ReconcileError> {
        let after_failure = state.expectations.is_invalidated();
        let read = read(&self.shared.context.client, engine, after_failure);
        in_time("read", "objects of FireboltEngine", ObjectKey::of(engine), read).await
    }

    /// The newest Warning event of the current StatefulSet, if it lacks pods that it should have created.
    ///
    /// Events are not watched: they are many, and of use only here. They are listed every so often.
    async fn warning(
        &self,
        engine: &FireboltEngine,
        objects: &EngineObjects,
        state: &mut State,
        now: Timestamp,
    ) -> Option<StatefulSetWarning> {
        let uid = short_of_pods(engine, objects, now);
        let before = state
            .own
            .warning
            .take()
            .filter(|listed| Some(listed.uid.as_str()) == uid);
        let uid = uid?;
        let listed = match before {
            Some(listed) if listed.at.elapsed() < EVENTS_INTERVAL => listed,
            before => {
                let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
                let newest = match list_warnings(&self.shared.context.client, namespace, uid).await {
                    Some(events) => newest_warning(events),
                    // What was listed before stands until something else is.
                    None => before.and_then(|listed| listed.newest),
                };
                let (uid, at) = (uid.to_owned(), Instant::now());
                ListedWarning { uid, at, newest }
            }
        };
        state.own.warning.insert(listed).newest.clone()
    }
}

/// The Warning events of the object with this UID. Best effort: a list that fails does not fail the reconcile.
async fn list_warnings(client: &Client, namespace: &str, uid: &str) -> Option<Vec<Event>> {
    let selector = format!("involvedObject.uid={uid},type=Warning");
    let parameters = ListParams::default().fields(&selector).limit(MOST_EVENTS);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match tokio::time::timeout(EVENTS_TIMEOUT, api.list(&parameters)).await {
        Ok(Ok(events)) => Some(events.items),
        Ok(Err(error)) => {
            debug!("cannot list the events of the StatefulSet: {}", describe(&error));
            None
        }
        Err(_elapsed) => None,
    }
}

fn cached_children(caches: &Caches, key: &ObjectKey, state: &mut State) -> CachedChildren<EngineObjects> {
    match cached(caches, key) {
        Some(objects) => trusted(objects, &mut state.expectations, version),
        None => CachedChildren::Untrusted,
    }
}

/// The version in which an object of this kind and name was read.
fn version(objects: &EngineObjects, kind: &str, name: &str) -> Option<String> {
    version_in(&objects.stateful_sets, kind, name)
        .or_else(|| version_in(&objects.services, kind, name))
        .or_else(|| version_in(&objects.config_maps, kind, name))
}

/// The children in the caches; `None` if one of them cannot be read.
fn cached(caches: &Caches, key: &ObjectKey) -> Option<EngineObjects> {
    Some(EngineObjects {
        stateful_sets: readable(&caches.of_engines.stateful_sets, by_engine(), key)?,
        services: readable(&caches.of_engines.services, by_engine(), key)?,
        config_maps: readable(&caches.of_engines.config_maps, by_engine(), key)?,
        pods: readable(&caches.of_engines.pods, by_engine(), key)?,
    })
}

/// What an engine refers to, in the caches.
fn cached_references(engine: &FireboltEngine, caches: &Caches) -> References {
    let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
    let class = engine.spec.engine_class_ref.as_deref();
    References {
        class: class.map(|name| find(&caches.engine_classes, namespace, name)),
        instance: find(&caches.instances, namespace, &engine.spec.instance_ref),
    }
}

fn find<K: Watched>(store: &Store<K>, namespace: &str, name: &str) -> Lookup<K> {
    match store.get(&ObjectKey::new(namespace, name)) {
        None => Lookup::Missing,
        Some(object) => match &object.0 {
            Ok(object) => Lookup::Found(object.clone()),
            Err(unreadable) => Lookup::Unreadable(unreadable.error.clone()),
        },
    }
}

/// What an engine refers to, from the API server.
async fn live_references(client: &Client, engine: &FireboltEngine) -> Result<References, ReconcileError> {
    let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
    let instance = lookup(client, namespace, &engine.spec.instance_ref).await?;
    let class = match engine.spec.engine_class_ref.as_deref() {
        Some(name) => Some(lookup(client, namespace, name).await?),
        None => None,
    };
    Ok(References { class, instance })
}

async fn lookup<K>(client: &Client, namespace: &str, name: &str) -> Result<Lookup<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let key = ObjectKey::new(namespace, name);
    let found = in_time(
        "read",
        "object named by FireboltEngine",
        key,
        get(client, namespace, name),
    )
    .await?;
    Ok(found.map_or(Lookup::Missing, Lookup::Found))
}

/// The children from the API server. Found by label, and by name where the status counts on an object, because labels can
/// be removed. After a failure, what is about to be created is looked up too: its name may be taken.
async fn read(client: &Client, engine: &FireboltEngine, after_failure: bool) -> Result<EngineObjects, ReconcileError> {
    let key = ObjectKey::of(engine);
    let reads = LiveReads { client, key: &key };
    let (mut stateful_sets, mut services, mut config_maps, pods) = tokio::try_join!(
        reads.by_label::<StatefulSet>(),
        reads.by_label::<Service>(),
        reads.by_label::<ConfigMap>(),
        reads.by_label::<Pod>(),
    )?;
    let names = EngineNames(&key.name);
    let expected = expected(engine.status.as_ref(), after_failure);
    let numbers = || expected.iter().copied();
    let routing = (!expected.is_empty()).then(|| names.routing_service());
    let service_names = numbers().map(|number| names.headless_service(number)).chain(routing);
    tokio::try_join!(
        reads.missing(&mut stateful_sets, numbers().map(|number| names.stateful_set(number))),
        reads.missing(&mut services, service_names),
        reads.missing(&mut config_maps, numbers().map(|number| names.config_map(number))),
    )?;
    Ok(EngineObjects {
        stateful_sets,
        services,
        config_maps,
        pods,
    })
}

/// The generations whose objects should be there; and the one that is being created, if that is in doubt.
fn expected(status: Option<&FireboltEngineStatus>, after_failure: bool) -> BTreeSet<i64> {
    let current = status.map_or(0, |status| status.current_generation);
    let serving = status.map(|status| status.active_generation);
    let draining = status.and_then(|status| status.draining_generation);
    let numbers = [after_failure.then_some(current), serving, draining];
    numbers.into_iter().flatten().filter(|&number| number >= 0).collect()
}

struct LiveReads<'a> {
    client: &'a Client,
    key: &'a ObjectKey,
}

impl LiveReads<'_> {
    async fn by_label<K>(&self) -> Result<Vec<K>, ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let selector = format!("{}={}", Label::Engine, self.key.name);
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.key.namespace);
        let found = api.list(&ListParams::default().labels(&selector)).await;
        found
            .map(|list| list.items)
            .map_err(|error| ReconcileError::read("list", &K::kind(&()), self.key, error))
    }

    /// Adds the objects of these names that exist and were not found yet.
    async fn missing<K>(&self, found: &mut Vec<K>, names: impl Iterator<Item = String>) -> Result<(), ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let known: BTreeSet<String> = found.iter().map(ResourceExt::name_any).collect();
        for name in names.filter(|name| !known.contains(name)) {
            found.extend(get(self.client, &self.key.namespace, &name).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_are_expected_or_may_be_in_the_way_are_looked_up_by_name() {
        let status = |status| -> FireboltEngineStatus { serde_json::from_value(status).unwrap() };
        let rolling = status(json!({ "currentGeneration": 5, "activeGeneration": 3, "drainingGeneration": 2 }));
        assert_eq!(expected(Some(&rolling), false), BTreeSet::from([2, 3]));
        assert_eq!(expected(Some(&rolling), true), BTreeSet::from([2, 3, 5]));
        assert_eq!(
            expected(
                Some(&status(json!({ "currentGeneration": 0, "activeGeneration": -1 }))),
                false
            ),
            BTreeSet::new()
        );
        assert_eq!(expected(None, true), BTreeSet::from([0]));
    }
}
