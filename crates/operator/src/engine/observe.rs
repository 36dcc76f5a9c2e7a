//! What is there: from the caches where a stale look is harmless, live where the next write cannot be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use firebolt_api::key::{Annotation, Label};
use firebolt_api::name::{EngineNames, MAX_GENERATION};
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::engine::{Generation, Observed, Pods, Routing, StatefulSet as SeenSet};
use firebolt_core::plan::{Child, Meta};
use firebolt_core::pods;
use firebolt_core::render::{engine as render, is_intact};
use firebolt_core::resolve::engine::EffectiveEngine;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::seen;
use crate::watches::{Caches, Store, Watched};
use crate::write::{LONGEST_REQUEST, PassError, version_in};

/// Everything in the cluster that has to do with one engine, whoever made it.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub stateful_sets: Vec<StatefulSet>,
    pub services: Vec<Service>,
    pub config_maps: Vec<ConfigMap>,
    pub pods: Vec<Pod>,
}

impl Objects {
    /// The version in which an object of this kind and name is among them.
    pub fn version(&self, kind: &str, name: &str) -> Option<String> {
        version_in(&self.stateful_sets, kind, name)
            .or_else(|| version_in(&self.services, kind, name))
            .or_else(|| version_in(&self.config_maps, kind, name))
    }
}

/// What the caches show. None if an object cannot be read: that must not look like an absence.
pub fn cached(caches: &Caches, key: &ObjectKey) -> Option<Objects> {
    fn readable<K: Watched>(store: &Store<K>, key: &ObjectKey) -> Option<Vec<K>> {
        let objects = store.belonging_to(key);
        objects.iter().map(|object| object.0.as_ref().ok().cloned()).collect()
    }
    Some(Objects {
        stateful_sets: readable(&caches.of_engines.stateful_sets, key)?,
        services: readable(&caches.of_engines.services, key)?,
        config_maps: readable(&caches.of_engines.config_maps, key)?,
        pods: readable(&caches.of_engines.pods, key)?,
    })
}

/// What the API server says. Found by label; and by name too where the status counts on an object, because labels can be
/// removed. After a failure (`suspicious`), what is about to be created is looked for as well: its name may be taken.
pub async fn live(client: &Client, engine: &FireboltEngine, suspicious: bool) -> Result<Objects, PassError> {
    match tokio::time::timeout(LONGEST_REQUEST, read(client, engine, suspicious)).await {
        Ok(objects) => objects,
        Err(_elapsed) => Err(PassError::TimedOut {
            verb: "read",
            kind: "objects of FireboltEngine".to_owned(),
            object: ObjectKey::of(engine),
            limit: LONGEST_REQUEST,
        }),
    }
}

async fn read(client: &Client, engine: &FireboltEngine, suspicious: bool) -> Result<Objects, PassError> {
    let key = ObjectKey::of(engine);
    let reads = Reads { client, key: &key };
    let (mut stateful_sets, mut services, mut config_maps, pods) = tokio::try_join!(
        reads.by_label::<StatefulSet>(),
        reads.by_label::<Service>(),
        reads.by_label::<ConfigMap>(),
        reads.by_label::<Pod>(),
    )?;
    let names = EngineNames(&key.name);
    let counted = counted(engine.status.as_ref(), suspicious);
    let numbers = || counted.iter().copied();
    let routing = (!counted.is_empty()).then(|| names.routing_service());
    let service_names = numbers().map(|number| names.headless_service(number)).chain(routing);
    tokio::try_join!(
        reads.missing(&mut stateful_sets, numbers().map(|number| names.stateful_set(number))),
        reads.missing(&mut services, service_names),
        reads.missing(&mut config_maps, numbers().map(|number| names.config_map(number))),
    )?;
    Ok(Objects {
        stateful_sets,
        services,
        config_maps,
        pods,
    })
}

/// The generations whose objects should be there; and the one that is being created, if that is in doubt.
fn counted(status: Option<&FireboltEngineStatus>, suspicious: bool) -> BTreeSet<i64> {
    let current = status.map_or(0, |status| status.current_generation);
    let serving = status.map(|status| status.active_generation);
    let draining = status.and_then(|status| status.draining_generation);
    let numbers = [suspicious.then_some(current), serving, draining];
    numbers.into_iter().flatten().filter(|&number| number >= 0).collect()
}

struct Reads<'a> {
    client: &'a Client,
    key: &'a ObjectKey,
}

impl Reads<'_> {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.key.namespace)
    }

    async fn by_label<K>(&self) -> Result<Vec<K>, PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let selector = format!("{}={}", Label::Engine, self.key.name);
        let found = self.api::<K>().list(&ListParams::default().labels(&selector)).await;
        found
            .map(|list| list.items)
            .map_err(|error| PassError::read("list", &K::kind(&()), self.key, error))
    }

    /// Adds the objects of these names that are there and were not found yet.
    async fn missing<K>(&self, found: &mut Vec<K>, names: impl Iterator<Item = String>) -> Result<(), PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let known: BTreeSet<String> = found.iter().map(ResourceExt::name_any).collect();
        for name in names.filter(|name| !known.contains(name)) {
            let object = ObjectKey::new(&self.key.namespace, &name);
            let read = self.api::<K>().get_opt(&name).await;
            found.extend(read.map_err(|error| PassError::read("get", &K::kind(&()), &object, error))?);
        }
        Ok(())
    }
}

/// How the objects look to the one who decides.
pub struct Looking<'a> {
    /// What would be rendered now, for comparison. While rendering is blocked, only the identity in it is right.
    pub effective: &'a EffectiveEngine,
    /// Whether all of it is right.
    pub renders: bool,
}

impl Looking<'_> {
    /// Sorts the objects by generation. Samples, warnings and the memory of the process are for the caller to add.
    #[must_use]
    pub fn at(&self, objects: &Objects) -> Observed {
        let mut generations: BTreeMap<i64, Generation> = BTreeMap::new();
        for set in &objects.stateful_sets {
            if let Some(number) = self.number(set, "") {
                let generation = generations.entry(number).or_default();
                generation.pods = pods_of(set, &objects.pods);
                generation.stateful_set = Some(self.set(set, number));
            }
        }
        for config_map in &objects.config_maps {
            if let Some(number) = self.number(config_map, "-config") {
                let rendered = || render::config_map(self.effective, number);
                generations.entry(number).or_default().config_map = Some(self.child(config_map, rendered));
            }
        }
        for service in &objects.services {
            if let Some(number) = self.number(service, "-hl") {
                let rendered = || render::headless_service(self.effective, number);
                generations.entry(number).or_default().headless_service = Some(self.child(service, rendered));
            }
        }
        let routing_name = self.names().routing_service();
        let routing = objects
            .services
            .iter()
            .find(|service| service.name_any() == routing_name);
        Observed {
            generations,
            routing: routing.map(|service| self.routing(service)),
            ..Observed::default()
        }
    }

    fn names(&self) -> EngineNames<'_> {
        EngineNames(&self.effective.name)
    }

    /// The generation that an object is named after. One of another name is none of ours, whatever its labels say.
    fn number<K: Resource>(&self, object: &K, suffix: &str) -> Option<i64> {
        let name = object.name_any();
        let rest = name
            .strip_prefix(&self.effective.name)?
            .strip_prefix("-g")?
            .strip_suffix(suffix)?;
        let number: i64 = rest.parse().ok()?;
        // "-g01", "-g+1": other names of the same number. Nor did we ever count to what names are not laid out for.
        (rest == number.to_string() && (0..=MAX_GENERATION).contains(&number)).then_some(number)
    }

    fn meta<K: Resource>(&self, object: &K) -> Meta {
        seen::meta(object, &self.effective.uid)
    }

    fn set(&self, live: &StatefulSet, number: i64) -> SeenSet {
        SeenSet {
            meta: self.meta(live),
            fingerprint: live.annotations().get(Annotation::Fingerprint.key()).cloned(),
            tampered: self.renders && self.tampered(live, number),
            replicas: live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            created: live.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        }
    }

    /// Kubernetes counts changes of the specification, so one that was never changed need not be compared; and what an
    /// admission policy of the cluster made of it when it was created is not tampering.
    fn tampered(&self, live: &StatefulSet, number: i64) -> bool {
        let labels = Some(render::generation_labels(self.effective, number));
        let relabelled = !is_intact(&labels, &live.metadata.labels);
        let is_changed = || !is_intact(&render::stateful_set(self.effective, number).spec, &live.spec);
        relabelled || (live.metadata.generation != Some(1) && is_changed())
    }

    fn child<K: Resource + Serialize>(&self, live: &K, rendered: impl FnOnce() -> K) -> Child {
        Child {
            meta: self.meta(live),
            intact: !self.renders || is_intact(&rendered(), live),
        }
    }

    fn routing(&self, live: &Service) -> Routing {
        let selector = live.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let target = selector.and_then(|selector| selector.get(Label::Generation.key())?.parse().ok());
        let intact = target.is_some_and(|target| {
            let rendered = render::routing_service(self.effective, target);
            is_intact(&rendered, live) && selector_is_exact(&rendered, live)
        });
        Routing {
            meta: self.meta(live),
            target,
            intact,
        }
    }
}

/// One key more would select fewer pods, or none.
fn selector_is_exact(rendered: &Service, live: &Service) -> bool {
    let selector = |service: &Service| service.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector(rendered) == selector(live)
}

fn pods_of(set: &StatefulSet, all: &[Pod]) -> Pods {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let own = || {
        all.iter()
            .filter(|pod| pods::is_of(pod, uid) && !pods::is_terminating(pod))
    };
    let count = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
    Pods {
        total: count(own().count()),
        ready: count(own().filter(|pod| pods::is_ready(pod)).count()),
    }
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
