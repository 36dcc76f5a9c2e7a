use firebolt_core::resolve::engine::resolve;
use rstest::rstest;
use serde_json::json;

use super::super::fixture::{defaults, facts};
use super::*;

fn engine() -> FireboltEngine {
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
    let spec = json!({ "instanceRef": "i", "replicas": 2 });
    let api_version = FireboltEngine::api_version(&());
    let engine = json!({ "apiVersion": api_version, "kind": "FireboltEngine", "metadata": metadata, "spec": spec });
    serde_json::from_value(engine).unwrap()
}

fn effective() -> EffectiveEngine {
    resolve(&engine(), None, &facts(), &defaults())
}

/// A whole generation as it stands in the cluster right after it was made.
fn generation(number: i64) -> Objects {
    let effective = effective();
    let mut objects = Objects {
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

fn look(objects: &Objects) -> Observed {
    let effective = effective();
    let looking = Looking {
        effective: &effective,
        renders: true,
    };
    looking.at(objects)
}

fn seen(change: impl FnOnce(&mut Objects)) -> Generation {
    let mut objects = generation(3);
    change(&mut objects);
    look(&objects).generations.remove(&3).expect("generation 3")
}

fn set(change: impl FnOnce(&mut StatefulSet)) -> SeenSet {
    seen(|objects| change(&mut objects.stateful_sets[0]))
        .stateful_set
        .expect("a StatefulSet")
}

#[test]
fn a_fresh_generation_is_whole() {
    let seen = seen(|_| ());
    assert!(seen.all_ready());
    let set = seen.stateful_set.unwrap();
    assert!(set.meta.owned && !set.meta.terminating && !set.tampered);
    assert_eq!(set.fingerprint, Some(render::fingerprint(&effective())));
    assert!(seen.config_map.unwrap().intact && seen.headless_service.unwrap().intact);
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
    assert!(!set(|set| drop(set.annotations_mut().insert("example.com/x".into(), "y".into()))).tampered);
    assert!(!set(|set| drop(set.labels_mut().insert("example.com/x".into(), "y".into()))).tampered);
}

#[test]
fn children_that_were_changed_are_seen() {
    let config = seen(|objects| objects.config_maps[0].data = None).config_map.unwrap();
    assert!(!config.intact);
    let headless = seen(|objects| objects.services[0].spec.as_mut().unwrap().ports = None)
        .headless_service
        .unwrap();
    assert!(!headless.intact);
}

#[test]
fn while_nothing_can_be_rendered_nothing_is_compared() {
    let (effective, mut objects) = (effective(), generation(3));
    objects.config_maps[0].data = None;
    objects.stateful_sets[0].metadata.labels = None;
    let looking = Looking {
        effective: &effective,
        renders: false,
    };
    let seen = looking.at(&objects).generations.remove(&3).unwrap();
    assert!(seen.config_map.unwrap().intact && !seen.stateful_set.unwrap().tampered);
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
    assert_eq!(look(&objects).generations.contains_key(&3), counts);
}

#[test]
fn pods_of_a_predecessor_do_not_count() {
    let seen = seen(|objects| objects.stateful_sets[0].metadata.uid = Some("another".to_owned()));
    assert_eq!(seen.pods, Pods { total: 0, ready: 0 });
}

#[test]
fn a_pod_that_is_going_does_not_count() {
    let time = serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap();
    let seen = seen(|objects| objects.pods[0].metadata.deletion_timestamp = Some(time));
    assert_eq!(seen.pods, Pods { total: 1, ready: 1 });
}

fn selector_of(service: &mut Service) -> &mut BTreeMap<String, String> {
    service.spec.as_mut().unwrap().selector.get_or_insert_default()
}

fn routed(change: impl FnOnce(&mut Service)) -> Option<Routing> {
    let mut service = render::routing_service(&effective(), 3);
    change(&mut service);
    let objects = Objects {
        services: vec![service],
        ..Objects::default()
    };
    look(&objects).routing
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

#[test]
fn names_are_looked_for_where_objects_should_be_or_could_be_in_the_way() {
    let status = |status| -> FireboltEngineStatus { serde_json::from_value(status).unwrap() };
    let rolling = status(json!({ "currentGeneration": 5, "activeGeneration": 3, "drainingGeneration": 2 }));
    assert_eq!(counted(Some(&rolling), false), BTreeSet::from([2, 3]));
    assert_eq!(counted(Some(&rolling), true), BTreeSet::from([2, 3, 5]));
    assert_eq!(
        counted(
            Some(&status(json!({ "currentGeneration": 0, "activeGeneration": -1 }))),
            false
        ),
        BTreeSet::new()
    );
    assert_eq!(counted(None, true), BTreeSet::from([0]));
}
