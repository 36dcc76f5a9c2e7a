//! The objects of an engine, compared with its desired state.

use std::collections::BTreeMap;

use firebolt_api::condition::{EngineCondition, is_true};
use firebolt_api::key::{Annotation, Label};
use firebolt_api::name::{EngineNames, GENERATION_NAMES};
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use jiff::Timestamp;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::changes::{Rendering, changes};
use super::terminating::first_to_end;
use super::{meta, name_of, named};
use crate::desired::Lookup;
use crate::desired::engine::{DesiredEngine, References};
use crate::plan::engine::{
    ActivitySample, Deletion, Desired, DrainSample, Generation, Observed, OrphanedPod, Pods, Routing,
    StatefulSet as ObservedSet, StatefulSetWarning, events_due,
};
use crate::plan::{Meta, ObservedChild, Reads};
use crate::render::{differences, engine as render, is_intact};
use crate::resolve::engine::EffectiveEngine;
use crate::{orphans, pods};

/// All objects of one engine by label or by name, regardless of their owner.
#[derive(Clone, Debug, Default)]
pub struct EngineObjects {
    /// Every StatefulSet, of whichever generation.
    pub stateful_sets: Vec<StatefulSet>,
    /// The headless Service of every generation, and the routing Service.
    pub services: Vec<Service>,
    /// Every ConfigMap.
    pub config_maps: Vec<ConfigMap>,
    /// The pods of all generations.
    pub pods: Vec<Pod>,
}

impl EngineObjects {
    /// The StatefulSet of a generation of the engine of this name.
    #[must_use]
    pub fn stateful_set(&self, engine: &str, generation: i64) -> Option<&StatefulSet> {
        named(&self.stateful_sets, &EngineNames(engine).stateful_set(generation))
    }

    /// The ConfigMap of a generation of the engine of this name.
    #[must_use]
    pub fn config_map(&self, engine: &str, generation: i64) -> Option<&ConfigMap> {
        named(&self.config_maps, &EngineNames(engine).config_map(generation))
    }

    /// The UIDs of all objects.
    pub fn uids(&self) -> impl Iterator<Item = &str> {
        let sets = self.stateful_sets.iter().map(Metadata::metadata);
        let services = self.services.iter().map(Metadata::metadata);
        let config_maps = self.config_maps.iter().map(Metadata::metadata);
        let pods = self.pods.iter().map(Metadata::metadata);
        let all = sets.chain(services).chain(config_maps).chain(pods);
        all.filter_map(|metadata| metadata.uid.as_deref())
    }

    /// The routing Service of the engine of this name.
    #[must_use]
    pub fn routing_service(&self, engine: &str) -> Option<&Service> {
        named(&self.services, &EngineNames(engine).routing_service())
    }
}

/// Everything that was read about one engine for one plan.
#[derive(Clone, Debug)]
pub struct EngineSnapshot {
    /// When it was read.
    pub at: Timestamp,
    /// Where it was read.
    pub reads: Reads,
    /// What it refers to.
    pub references: References,
    /// Its objects.
    pub objects: EngineObjects,
    /// The latest count of the running queries of the draining generation.
    pub drain: Option<DrainSample>,
    /// Since when this process has seen no route to the draining generation.
    pub unrouted_since: Option<Timestamp>,
    /// The latest count of the running queries of the active generation.
    pub activity: Option<ActivitySample>,
    /// The newest Warning event of the current StatefulSet. Listed only while it lacks pods.
    pub warning: Option<StatefulSetWarning>,
}

/// Sorts the objects by generation and compares each with its desired state.
///
/// While nothing can be rendered, nothing is compared.
#[must_use]
pub fn compare(engine: &FireboltEngine, desired: &DesiredEngine, snapshot: &EngineSnapshot) -> Observed {
    let comparator = EngineComparator {
        engine,
        class: snapshot.references.class.as_ref().and_then(Lookup::found),
        effective: &desired.effective,
        rendered: desired.generation.as_ref().ok(),
        is_live: snapshot.reads != Reads::Cached,
    };
    let current = current_set(engine, &snapshot.objects);
    Observed {
        drain: snapshot.drain.clone(),
        unrouted_since: snapshot.unrouted_since,
        activity: snapshot.activity.clone(),
        warning: snapshot.warning.clone(),
        pod_causes: current.map_or_else(Vec::new, |set| pods::causes(living_pods(set, &snapshot.objects.pods))),
        ..comparator.of(&snapshot.objects)
    }
}

/// The UID of the current StatefulSet, if it lacks pods although there was time to create them: then its events say why.
#[must_use]
pub fn short_of_pods<'a>(engine: &FireboltEngine, objects: &'a EngineObjects, now: Timestamp) -> Option<&'a str> {
    let set = current_set(engine, objects)?;
    let meta = meta(set, engine.metadata.uid.as_deref().unwrap_or_default());
    let stays = meta.owned && !meta.terminating;
    let short = pods_of(set, &objects.pods).total < replicas(set);
    let due = events_due(created(set), now).is_none();
    (stays && short && due).then_some(set.metadata.uid.as_deref()?)
}

/// Whether a generation is draining and the routing Service selects another one.
#[must_use]
pub fn is_unrouted(engine: &FireboltEngine, objects: &EngineObjects) -> bool {
    let draining = engine.status.as_ref().and_then(|status| status.draining_generation);
    let service = objects.routing_service(engine.metadata.name.as_deref().unwrap_or_default());
    let owner = engine.metadata.uid.as_deref().unwrap_or_default();
    let target = service.filter(|service| meta(*service, owner).owned).and_then(target);
    draining.is_some() && target.is_some() && target != draining
}

/// The StatefulSet of the generation that the status calls the newest.
fn current_set<'a>(engine: &FireboltEngine, objects: &'a EngineObjects) -> Option<&'a StatefulSet> {
    let number = engine.status.as_ref()?.current_generation;
    let name = EngineNames(engine.metadata.name.as_deref()?).stateful_set(number);
    named(&objects.stateful_sets, &name)
}

struct EngineComparator<'a> {
    engine: &'a FireboltEngine,
    class: Option<&'a FireboltEngineClass>,
    /// What would be rendered now. While rendering is blocked, only the identity in it is right.
    effective: &'a EffectiveEngine,
    /// The generation that would be rendered; none while rendering is blocked.
    rendered: Option<&'a Desired>,
    /// Whether the objects were read live: caches do not keep all of them.
    is_live: bool,
}

impl EngineComparator<'_> {
    fn of(&self, objects: &EngineObjects) -> Observed {
        let mut generations: BTreeMap<i64, Generation> = BTreeMap::new();
        for set in &objects.stateful_sets {
            if let Some(number) = self.number(set, "") {
                let generation = generations.entry(number).or_default();
                generation.pods = pods_of(set, &objects.pods);
                generation.terminating = first_to_end(set.metadata.uid.as_deref().unwrap_or_default(), &objects.pods);
                generation.stateful_set = Some(self.set(set, number, objects));
            }
        }
        for config_map in &objects.config_maps {
            if let Some(number) = self.number(config_map, "-config") {
                let generation = generations.entry(number).or_default();
                let child = if is_outdated(generation) {
                    self.recorded(config_map)
                } else {
                    self.child(config_map, || render::config_map(self.effective, number))
                };
                generation.config_map = Some(child);
            }
        }
        for service in &objects.services {
            if let Some(number) = self.number(service, "-hl") {
                let rendered = || render::headless_service(self.effective, number);
                generations.entry(number).or_default().headless_service = Some(self.child(service, rendered));
            }
        }
        for pod in &objects.pods {
            if let Some(number) = orphans::generation(pod, &self.effective.name) {
                let generation = generations.entry(number).or_default();
                // A StatefulSet that stays adopts the pod.
                let left = generation.stateful_set.as_ref().is_none_or(|set| set.meta.terminating);
                generation.orphans.extend(left.then(|| self.orphan(pod)));
            }
        }
        let routing = objects.routing_service(&self.effective.name);
        Observed {
            generations,
            routing: routing.map(|service| self.routing(service)),
            deletions: self.deletions(objects),
            ..Observed::default()
        }
    }

    /// The generation that an object is named after. An object of another name is not ours, whatever its labels say.
    ///
    /// Many generations share a name, and the label says which one it is. If the label is gone, it is the newest one that can
    /// exist.
    fn number<K: Metadata<Ty = ObjectMeta>>(&self, object: &K, suffix: &str) -> Option<i64> {
        let rest = name_of(object)
            .strip_prefix(&self.effective.name)?
            .strip_prefix("-g")?
            .strip_suffix(suffix)?;
        let place: i64 = rest.parse().ok()?;
        // "-g01", "-g+1": other names of the same number.
        if rest != place.to_string() || !(0..GENERATION_NAMES).contains(&place) {
            return None;
        }
        let labels = object.metadata().labels.as_ref();
        let labelled = labels.and_then(|labels| labels.get(Label::Generation.key())?.parse::<i64>().ok());
        let labelled = labelled.filter(|number| *number >= 0 && number.rem_euclid(GENERATION_NAMES) == place);
        Some(labelled.unwrap_or_else(|| {
            let status = self.engine.status.as_ref();
            let newest = status.map_or(place, |status| status.current_generation).max(place);
            newest - (newest - place).rem_euclid(GENERATION_NAMES)
        }))
    }

    /// The objects of generations that are being deleted.
    fn deletions(&self, objects: &EngineObjects) -> Vec<Deletion> {
        let sets = objects
            .stateful_sets
            .iter()
            .filter_map(|set| self.deletion("StatefulSet", set, ""));
        let services = objects
            .services
            .iter()
            .filter_map(|service| self.deletion("Service", service, "-hl"));
        let config_maps = objects.config_maps.iter();
        let config_maps = config_maps.filter_map(|config_map| self.deletion("ConfigMap", config_map, "-config"));
        sets.chain(services).chain(config_maps).collect()
    }

    fn deletion<K: Metadata<Ty = ObjectMeta>>(&self, kind: &str, object: &K, suffix: &str) -> Option<Deletion> {
        self.number(object, suffix)?;
        let meta = self.meta(object);
        Some(Deletion {
            object: format!("{kind} {}", name_of(object)),
            since: object.metadata().deletion_timestamp.as_ref().filter(|_| meta.owned)?.0,
            finalizers: meta.foreign_finalizers,
        })
    }

    fn meta<K: Metadata<Ty = ObjectMeta>>(&self, object: &K) -> Meta {
        meta(object, &self.effective.uid)
    }

    fn orphan(&self, pod: &Pod) -> OrphanedPod {
        OrphanedPod {
            name: name_of(pod).to_owned(),
            meta: Meta {
                owned: true,
                ..self.meta(pod)
            },
            ready: pods::is_ready(pod),
        }
    }

    fn set(&self, live: &StatefulSet, number: i64, objects: &EngineObjects) -> ObservedSet {
        ObservedSet {
            meta: self.meta(live),
            template_hash: self.template_hash(live),
            tampered: self.rendered.is_some() && self.tampered(live, number),
            outdated: self.outdated_parts(live),
            changes: self.changes(live, number, objects),
            replicas: replicas(live),
            created: created(live),
        }
    }

    /// The recorded template hash; that of the desired state if it was recorded by a version of the operator whose hashes cannot
    /// be compared, and nothing else says that users have changed anything since.
    fn template_hash(&self, live: &StatefulSet) -> Option<String> {
        let recorded = annotation(live, Annotation::TemplateHash);
        let Some(desired) = self
            .rendered
            .filter(|_| !recorded.is_some_and(|hash| render::is_comparable(hash)))
        else {
            return recorded.cloned();
        };
        let rolled_out = self
            .engine
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        let is_unchanged = || {
            let rendered = render::stateful_set(self.effective, 0);
            let reasons = [Annotation::CustomEngineConfigHash, Annotation::EngineClassHash];
            reasons
                .into_iter()
                .all(|reason| annotation(&rendered, reason) == annotation(live, reason))
        };
        // What is refused is observed, but has not been rolled out.
        let conditions = self.engine.status.iter().flat_map(|status| &status.conditions);
        let is_refused = is_true(conditions, EngineCondition::Stalled);
        let observed = rolled_out.is_some() && rolled_out == self.engine.metadata.generation;
        let adopted = observed && !is_refused && is_unchanged();
        if adopted {
            Some(desired.template_hash.clone())
        } else {
            recorded.cloned()
        }
    }

    /// The parts that this version of the operator renders differently although users want the same.
    fn outdated_parts(&self, live: &StatefulSet) -> Vec<&'static str> {
        let Some(desired) = self.rendered else {
            return Vec::new();
        };
        if self.template_hash(live).as_ref() != Some(&desired.template_hash) {
            return Vec::new();
        }
        let recorded = annotation(live, Annotation::RenderingHash);
        render::outdated_parts(recorded.map(String::as_str), &desired.rendering_hash)
    }

    /// Kubernetes counts changes of the specification, so one that was never changed need not be compared; and what an
    /// admission policy of the cluster made of it when it was created is not tampering.
    fn tampered(&self, live: &StatefulSet, number: i64) -> bool {
        let labels = Some(render::generation_labels(self.effective, number));
        let relabelled = !is_intact(&labels, &live.metadata.labels);
        relabelled || (live.metadata.generation != Some(1) && self.is_changed(live, number))
    }

    /// What another version of the operator rendered cannot be compared field by field. Kubernetes keeps its first revision of
    /// the pods, which the update strategy never replaces.
    fn is_changed(&self, live: &StatefulSet, number: i64) -> bool {
        let rendered = render::stateful_set(self.effective, number).spec;
        if self.outdated_parts(live).is_empty() {
            return !is_intact(&rendered, &live.spec);
        }
        let status = live.status.as_ref();
        let revisions = status.map(|status| (&status.current_revision, &status.update_revision));
        let observed = status.and_then(|status| status.observed_generation) == live.metadata.generation;
        let other_template = observed && revisions.is_some_and(|(current, update)| current != update);
        let elsewhere = differences(&rendered, &live.spec);
        let elsewhere = elsewhere
            .iter()
            .any(|path| !path.starts_with("template.") && !path.starts_with("volumeClaim"));
        other_template || elsewhere
    }

    /// What changed since the current generation was rendered.
    fn changes(&self, live: &StatefulSet, number: i64, objects: &EngineObjects) -> Vec<String> {
        let current = self.engine.status.as_ref().map(|status| status.current_generation);
        let template_hash = self.template_hash(live);
        let outdated = self
            .rendered
            .is_some_and(|desired| Some(&desired.template_hash) != template_hash.as_ref());
        if current != Some(number) || !outdated || !self.is_live {
            return Vec::new();
        }
        let config_map = render::config_map(self.effective, number);
        let rendered = Rendering {
            set: &render::stateful_set(self.effective, number),
            config_map: Some(&config_map),
        };
        let live = Rendering {
            set: live,
            // That of another owner is reported as such.
            config_map: named(&objects.config_maps, name_of(&config_map)).filter(|live| self.meta(*live).owned),
        };
        changes(self.engine, self.class, rendered, live)
    }

    fn child<K: Metadata<Ty = ObjectMeta> + Serialize>(&self, live: &K, rendered: impl FnOnce() -> K) -> ObservedChild {
        ObservedChild {
            meta: self.meta(live),
            intact: self.rendered.is_none() || is_intact(&rendered(), live),
        }
    }

    /// What another version of the operator rendered is as it should be if it is as that version wrote it.
    fn recorded(&self, live: &ConfigMap) -> ObservedChild {
        ObservedChild {
            meta: self.meta(live),
            intact: render::has_recorded_data(live),
        }
    }

    fn routing(&self, live: &Service) -> Routing {
        let target = target(live);
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

/// Whether another version of the operator rendered the StatefulSet of the generation.
fn is_outdated(generation: &Generation) -> bool {
    let set = generation.stateful_set.as_ref();
    set.is_some_and(|set| !set.outdated.is_empty())
}

/// One key more would select fewer pods, or none.
fn selector_is_exact(rendered: &Service, live: &Service) -> bool {
    let selector = |service: &Service| service.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector(rendered) == selector(live)
}

/// The generation that a routing Service selects.
fn target(service: &Service) -> Option<i64> {
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    selector.get(Label::Generation.key())?.parse().ok()
}

fn annotation(set: &StatefulSet, annotation: Annotation) -> Option<&String> {
    set.metadata.annotations.as_ref()?.get(annotation.key())
}

fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn created(set: &StatefulSet) -> Timestamp {
    let created = set.metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The pods that a StatefulSet owns by UID and that are not terminating.
fn living_pods<'a>(set: &'a StatefulSet, all: &'a [Pod]) -> impl Iterator<Item = &'a Pod> + Clone {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    all.iter()
        .filter(move |pod| pods::is_of(pod, uid) && !pods::is_terminating(pod))
}

fn pods_of(set: &StatefulSet, all: &[Pod]) -> Pods {
    let (total, ready) = pods::count(set.metadata.uid.as_deref().unwrap_or_default(), all);
    Pods { total, ready }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
