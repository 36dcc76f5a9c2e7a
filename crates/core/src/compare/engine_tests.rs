use firebolt_api::FireboltEngine;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::desired::Lookup;
use crate::plan::engine::{Desired, DrainSettings, Gate, GateCause};
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};

#[path = "engine_upgrade_tests.rs"]
mod upgrades;

fn engine() -> FireboltEngine {
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
    let spec = json!({ "instanceRef": "i", "replicas": 2 });
    let engine = json!({ "apiVersion": "v", "kind": "K", "metadata": metadata, "spec": spec });
    serde_json::from_value(engine).unwrap()
}

fn effective() -> EffectiveEngine {
    let facts = InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "m:7000".to_owned(),
    };
    resolve(&engine(), None, &facts, &Defaults::example())
}

fn desired() -> DesiredEngine {
    let effective = effective();
    DesiredEngine {
        generation: Ok(Desired {
            template_hash: render::template_hash(&effective),
            rendering_hash: render::rendering_hash(&effective),
        }),
        auto_stop: None,
        instance: Ok(()),
        drain: DrainSettings {
            waits: true,
            interval: std::time::Duration::from_secs(5),
        },
        scrape_mode: firebolt_api::MetricScrapeMode::PodIp,
        effective,
    }
}

/// A whole generation as it stands in the cluster right after it was made.
fn generation(number: i64) -> EngineObjects {
    let effective = effective();
    let mut objects = EngineObjects {
        stateful_sets: vec![render::stateful_set(&effective, number)],
        services: vec![render::headless_service(&effective, number)],
        config_maps: vec![render::config_map(&effective, number)],
        pods: Vec::new(),
    };
    let set = &mut objects.stateful_sets[0].metadata;
    (set.uid, set.generation) = (Some(format!("set-{number}")), Some(1));
    objects.pods = (0..2).map(|ordinal| pod(number, ordinal)).collect();
    objects
}

fn pod(number: i64, ordinal: i32) -> Pod {
    let owner = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x", "uid": format!("set-{number}"), "controller": true });
    let metadata = json!({ "name": EngineNames("a").pod(number, ordinal), "ownerReferences": [owner] });
    let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
}

fn snapshot(objects: &EngineObjects) -> EngineSnapshot {
    EngineSnapshot {
        at: Timestamp::UNIX_EPOCH,
        reads: Reads::Live,
        references: References {
            class: None,
            instance: Lookup::Missing,
        },
        objects: objects.clone(),
        drain: None,
        unrouted_since: None,
        activity: None,
        warning: None,
    }
}

fn compared(objects: &EngineObjects) -> Observed {
    compare(&engine(), &desired(), &snapshot(objects))
}

fn observed(change: impl FnOnce(&mut EngineObjects)) -> Generation {
    let mut objects = generation(3);
    change(&mut objects);
    compared(&objects).generations.remove(&3).expect("generation 3")
}

fn set(change: impl FnOnce(&mut StatefulSet)) -> ObservedSet {
    observed(|objects| change(&mut objects.stateful_sets[0]))
        .stateful_set
        .expect("a StatefulSet")
}

#[test]
fn a_new_generation_is_complete() {
    let generation = observed(|_| ());
    assert!(generation.all_ready());
    let set = generation.stateful_set.unwrap();
    assert!(set.meta.owned && !set.meta.terminating && !set.tampered);
    assert_eq!(set.template_hash, Some(render::template_hash(&effective())));
    assert!(generation.config_map.unwrap().intact && generation.headless_service.unwrap().intact);
}

#[test]
fn only_a_changed_specification_is_compared() {
    let scaled = |set: &mut StatefulSet| set.spec.as_mut().unwrap().replicas = Some(9);
    assert!(!set(scaled).tampered, "what the cluster made of it at its creation");
    let changed = |set: &mut StatefulSet| {
        scaled(set);
        set.metadata.generation = Some(2);
    };
    assert!(set(changed).tampered);
    assert_eq!(set(changed).replicas, 9);
    assert!(
        !set(|set| set.metadata.generation = Some(2)).tampered,
        "changed and changed back"
    );
}

#[test]
fn a_label_that_is_gone_is_tampering_and_an_annotation_of_others_is_not() {
    assert!(set(|set| set.metadata.labels = None).tampered);
    assert!(
        !set(|set| drop(
            set.metadata
                .annotations
                .get_or_insert_default()
                .insert("example.com/x".into(), "y".into())
        ))
        .tampered
    );
    assert!(
        !set(|set| drop(
            set.metadata
                .labels
                .get_or_insert_default()
                .insert("example.com/x".into(), "y".into())
        ))
        .tampered
    );
}

#[test]
fn children_that_were_changed_are_not_intact() {
    let config = observed(|objects| objects.config_maps[0].data = None)
        .config_map
        .unwrap();
    assert!(!config.intact);
    let headless = observed(|objects| objects.services[0].spec.as_mut().unwrap().ports = None)
        .headless_service
        .unwrap();
    assert!(!headless.intact);
}

#[test]
fn while_nothing_can_be_rendered_nothing_is_compared() {
    let mut objects = generation(3);
    objects.config_maps[0].data = None;
    objects.stateful_sets[0].metadata.labels = None;
    let gate = Gate {
        cause: GateCause::ClassUnready,
        message: String::new(),
    };
    let blocked = DesiredEngine {
        generation: Err(gate),
        ..desired()
    };
    let observed = compare(&engine(), &blocked, &snapshot(&objects))
        .generations
        .remove(&3)
        .unwrap();
    assert!(observed.config_map.unwrap().intact && !observed.stateful_set.unwrap().tampered);
}

#[rstest]
#[case::another_engine(|set: &mut StatefulSet| set.metadata.owner_references.as_mut().unwrap()[0].uid = "v".into())]
#[case::not_the_controller(|set: &mut StatefulSet| set.metadata.owner_references.as_mut().unwrap()[0].controller = None)]
#[case::stripped(|set: &mut StatefulSet| set.metadata.owner_references = None)]
fn what_this_engine_does_not_control_is_not_owned(#[case] change: fn(&mut StatefulSet)) {
    assert!(!set(change).meta.owned);
}

#[rstest]
#[case("a-g3", true)]
#[case("a-g03", false)]
#[case("a-g+3", false)]
#[case("a-g", false)]
#[case("b-g3", false)]
#[case("a-g3-config", false)]
#[case("a-gx", false)]
#[case("a-g-3", false)]
#[case("a-g9223372036854775807", false)]
fn an_object_belongs_to_the_generation_that_its_name_says(#[case] name: &str, #[case] counts: bool) {
    let mut objects = generation(3);
    objects.stateful_sets[0].metadata.name = Some(name.to_owned());
    objects.services.clear();
    objects.config_maps.clear();
    assert_eq!(compared(&objects).generations.contains_key(&3), counts);
}

#[test]
fn pods_of_a_predecessor_do_not_count() {
    let generation = observed(|objects| objects.stateful_sets[0].metadata.uid = Some("another".to_owned()));
    assert_eq!(generation.pods, Pods { total: 0, ready: 0 });
}

#[test]
fn a_pod_that_is_going_does_not_count() {
    let time = serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap();
    let generation = observed(|objects| objects.pods[0].metadata.deletion_timestamp = Some(time));
    assert_eq!(generation.pods, Pods { total: 1, ready: 1 });
    assert_eq!(generation.terminating.unwrap().name, "a-g3-0");
}

#[test]
fn pods_that_a_stateful_set_left_behind_are_found_unless_it_takes_them_back() {
    let orphaned = |objects: &mut EngineObjects| {
        for (ordinal, pod) in (0..).zip(&mut objects.pods) {
            let labels = render::generation_labels(&effective(), 3);
            pod.metadata.owner_references = None;
            (pod.metadata.labels, pod.metadata.uid) = (Some(labels), Some(format!("pod-{ordinal}")));
            pod.spec.get_or_insert_default().subdomain = Some("a-g3-hl".to_owned());
        }
    };
    let left = observed(|objects| {
        orphaned(objects);
        objects.stateful_sets.clear();
    });
    let found: Vec<_> = left.orphans.iter().map(|pod| (&*pod.name, &*pod.meta.uid)).collect();
    assert_eq!(found, [("a-g3-0", "pod-0"), ("a-g3-1", "pod-1")]);
    assert!(
        left.orphans
            .iter()
            .all(|pod| pod.ready && pod.meta.owned && !pod.meta.terminating)
    );
    assert!(observed(orphaned).orphans.is_empty());
    let leaving = observed(|objects| {
        orphaned(objects);
        objects.stateful_sets[0].metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap());
    });
    assert_eq!(leaving.orphans.len(), 2);
    assert!(
        observed(|objects| objects.stateful_sets.clear()).orphans.is_empty(),
        "Kubernetes deletes those with an owner"
    );
}

fn selector_of(service: &mut Service) -> &mut BTreeMap<String, String> {
    service.spec.as_mut().unwrap().selector.get_or_insert_default()
}

fn routed(change: impl FnOnce(&mut Service)) -> Option<Routing> {
    let mut service = render::routing_service(&effective(), 3);
    change(&mut service);
    let objects = EngineObjects {
        services: vec![service],
        ..EngineObjects::default()
    };
    compared(&objects).routing
}

#[test]
fn the_route_is_where_its_selector_points() {
    let route = routed(|_| ()).unwrap();
    assert_eq!((route.target, route.intact), (Some(3), true));
    let narrowed = routed(|service| drop(selector_of(service).insert("zone".into(), "x".into()))).unwrap();
    assert_eq!(
        (narrowed.target, narrowed.intact),
        (Some(3), false),
        "one key more selects fewer pods"
    );
    let odd = routed(|service| drop(selector_of(service).insert(Label::Generation.key().into(), "x".into()))).unwrap();
    assert_eq!((odd.target, odd.intact), (None, false));
    let ports = routed(|service| service.spec.as_mut().unwrap().ports = None).unwrap();
    assert_eq!((ports.target, ports.intact), (Some(3), false));
}

fn at(status: &serde_json::Value) -> FireboltEngine {
    FireboltEngine {
        status: Some(serde_json::from_value(status.clone()).unwrap()),
        ..engine()
    }
}

#[test]
fn events_are_of_interest_only_while_pods_of_ours_are_missing() {
    let created: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let engine = at(&json!({ "currentGeneration": 3, "activeGeneration": 3 }));
    let short = |age: i64, change: fn(&mut EngineObjects)| {
        let mut objects = generation(3);
        objects.pods.pop();
        let time = serde_json::from_value(json!(created)).unwrap();
        objects.stateful_sets[0].metadata.creation_timestamp = Some(time);
        change(&mut objects);
        let now = created + jiff::SignedDuration::from_secs(age);
        short_of_pods(&engine, &objects, now).map(str::to_owned)
    };
    assert_eq!(short(9, |_| ()).as_deref(), Some("set-3"));
    assert_eq!(short(1, |_| ()), None, "they may still come");
    assert_eq!(short(9, |objects| objects.pods.push(pod(3, 7))), None, "all exist");
    assert_eq!(
        short(9, |objects| objects.stateful_sets[0].metadata.owner_references = None),
        None
    );
    assert_eq!(
        short(9, |objects| objects.stateful_sets[0].metadata.name =
            Some("a-g2".to_owned())),
        None
    );
}

#[test]
fn the_draining_generation_is_unrouted_while_our_service_selects_another_one() {
    let draining =
        |number: i64| at(&json!({ "currentGeneration": 3, "activeGeneration": 3, "drainingGeneration": number }));
    let mut routed = EngineObjects {
        services: vec![render::routing_service(&effective(), 3)],
        ..EngineObjects::default()
    };
    assert!(is_unrouted(&draining(2), &routed));
    assert!(!is_unrouted(&draining(3), &routed));
    assert!(
        !is_unrouted(&at(&json!({ "currentGeneration": 3, "activeGeneration": 3 })), &routed),
        "nothing drains"
    );
    assert!(!is_unrouted(&draining(2), &EngineObjects::default()), "no Service");
    routed.services[0].metadata.owner_references = None;
    assert!(!is_unrouted(&draining(2), &routed), "not our Service");
}

#[test]
fn pods_of_the_current_generation_say_why_they_are_not_ready() {
    let mut objects = generation(3);
    let waiting = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes" }] });
    objects.pods[1].status = Some(serde_json::from_value(waiting).unwrap());
    let causes = |current: i64| {
        let engine = at(&json!({ "currentGeneration": current, "activeGeneration": 3 }));
        compare(&engine, &desired(), &snapshot(&objects)).pod_causes
    };
    assert_eq!(causes(3).len(), 1, "{:?}", causes(3));
    assert!(causes(4).is_empty());
}

#[test]
fn changes_are_named_of_the_current_generation_as_read_live() {
    let engine = at(&json!({ "currentGeneration": 3, "activeGeneration": 3 }));
    let changes = |number: i64, reads| {
        let mut objects = generation(number);
        let set = &mut objects.stateful_sets[0];
        set.metadata
            .annotations
            .get_or_insert_default()
            .insert(Annotation::TemplateHash.key().into(), "old".into());
        let pod = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        pod.containers[0].image = Some("engine:old".to_owned());
        let snapshot = EngineSnapshot {
            reads,
            ..snapshot(&objects)
        };
        let observed = compare(&engine, &desired(), &snapshot);
        observed.generations[&number]
            .stateful_set
            .as_ref()
            .unwrap()
            .changes
            .len()
    };
    assert_eq!(changes(3, Reads::LiveChildren), 1);
    assert_eq!(changes(3, Reads::Cached), 0, "caches do not keep the pod template");
    assert_eq!(changes(2, Reads::LiveChildren), 0, "an older generation");
    assert!(
        compared(&generation(3)).generations[&3]
            .stateful_set
            .as_ref()
            .unwrap()
            .changes
            .is_empty()
    );
}

#[test]
fn objects_belong_to_the_generation_of_their_label_or_to_the_newest_of_their_name() {
    let numbers = |label: Option<&str>, current: i64| -> Vec<i64> {
        let mut engine = engine();
        let status = json!({ "currentGeneration": current, "activeGeneration": current });
        engine.status = Some(serde_json::from_value(status).unwrap());
        let mut objects = generation(3);
        objects.services.clear();
        objects.config_maps.clear();
        let labels = objects.stateful_sets[0].metadata.labels.as_mut().unwrap();
        labels.remove(Label::Generation.key());
        labels.extend(label.map(|label| (Label::Generation.key().to_owned(), label.to_owned())));
        compare(&engine, &desired(), &snapshot(&objects))
            .generations
            .into_keys()
            .collect()
    };
    assert_eq!(numbers(Some("3"), 100_005), [3]);
    assert_eq!(numbers(Some("100003"), 100_005), [100_003]);
    assert_eq!(numbers(Some("4"), 100_005), [100_003], "the label of another name");
    assert_eq!(numbers(None, 100_002), [3]);
    assert_eq!(numbers(None, 5), [3]);
    assert_eq!(numbers(None, 0), [3]);
    assert_eq!(numbers(Some("-99997"), 0), [3]);
}

#[test]
fn objects_of_generations_that_are_being_deleted_are_listed() {
    let mut objects = generation(3);
    let deleted = serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap();
    objects.services[0].metadata.deletion_timestamp = Some(deleted);
    objects.services[0].metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let found = compared(&objects).deletions;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].object.as_str(), found[0].finalizers[0].as_str()),
        ("Service a-g3-hl", "example.com/hold")
    );
    objects.services[0].metadata.owner_references = None;
    assert_eq!(compared(&objects).deletions, []);
}
