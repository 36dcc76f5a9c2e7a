use k8s_openapi::api::core::v1::Service;
use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{effective, external, instance};
use super::*;
use crate::render::{instance as render, with_template_hash};

fn compared(
    effective: &EffectiveInstance,
    objects: InstanceObjects,
    accepted: &BTreeMap<InstanceObject, AcceptedDrift>,
) -> Observed {
    let snapshot = InstanceSnapshot {
        objects,
        ..InstanceSnapshot::default()
    };
    compare(&instance(&json!({}), &json!({})), effective, &snapshot, accepted).observed
}

#[test]
fn an_object_is_intact_until_a_user_changes_what_we_render() {
    let effective = effective();
    let mut service = with_template_hash(render::gateway_service(&effective));
    let seen = |service| {
        let services = vec![service];
        let objects = InstanceObjects {
            services,
            ..InstanceObjects::default()
        };
        compared(&effective, objects, &BTreeMap::new()).objects[&InstanceObject::GatewayService].clone()
    };
    assert!(seen(service.clone()).intact && seen(service.clone()).meta.owned);
    let annotations = service.metadata.annotations.get_or_insert_default();
    annotations.insert("theirs".to_owned(), "x".to_owned());
    assert!(seen(service.clone()).intact, "of others");
    service.metadata.owner_references = None;
    assert!(!seen(service.clone()).meta.owned);
    service.spec.as_mut().unwrap().selector = None;
    assert!(!seen(service).intact);
}

#[test]
fn drift_caused_by_a_mutating_policy_is_accepted() {
    let effective = effective();
    let Some(Rendered::Deployment(rendered)) = objects::rendered(InstanceObject::GatewayDeployment, &effective, None)
    else {
        panic!("no Deployment");
    };
    let mut live = rendered.clone();
    live.spec.as_mut().unwrap().replicas = Some(9);
    let drift = AcceptedDrift::between(&rendered, &live).expect("a difference");
    let intact = |live: &Deployment, accepted: &BTreeMap<InstanceObject, AcceptedDrift>| {
        let objects = InstanceObjects {
            deployments: vec![live.clone()],
            ..InstanceObjects::default()
        };
        compared(&effective, objects, accepted).objects[&InstanceObject::GatewayDeployment].intact
    };
    let accepted = BTreeMap::from([(InstanceObject::GatewayDeployment, drift)]);
    assert!(!intact(&live, &BTreeMap::new()));
    assert!(intact(&live, &accepted));
    live.metadata.labels = None;
    assert!(!intact(&live, &accepted), "it was changed since");
}

/// What is left of an internal setup, seen by an instance that wants `effective`.
fn database(effective: &EffectiveInstance, objects: InstanceObjects) -> Option<Database> {
    compared(effective, objects, &BTreeMap::new()).database
}

#[test]
fn the_database_in_use_is_known_from_anything_that_is_left() {
    let (internal, external) = (effective(), external());
    assert_eq!(database(&external, InstanceObjects::default()), None);
    let by_pods = || InstanceObjects {
        deployments: vec![render::metadata_deployment(&internal, "h")],
        ..InstanceObjects::default()
    };
    let by_config = || InstanceObjects {
        config_maps: vec![render::metadata_config_map(&internal)],
        ..InstanceObjects::default()
    };
    let by_set = || InstanceObjects {
        stateful_sets: vec![render::postgres_stateful_set(&internal)],
        ..InstanceObjects::default()
    };
    for objects in [by_pods(), by_config(), by_set()] {
        assert_eq!(database(&external, objects), Some(Database::Internal));
    }
    let mut foreign = by_pods();
    foreign.deployments[0].metadata.owner_references = None;
    assert_eq!(database(&external, foreign), None, "not our word");
}

#[test]
fn a_record_that_was_changed_by_hand_is_no_switch() {
    let (internal, external) = (effective(), external());
    let objects = InstanceObjects {
        deployments: vec![render::metadata_deployment(&internal, "h")],
        config_maps: vec![render::metadata_config_map(&external)],
        ..InstanceObjects::default()
    };
    assert_eq!(database(&internal, objects.clone()), Some(Database::Internal));
    assert_eq!(database(&external, objects), Some(Database::External), "on its way");
}

#[rstest]
#[case::none(json!({}), false)]
#[case::labelled_alone(json!({ Label::Instance.key(): "main" }), false)]
#[case::of_another(json!({ Label::Instance.key(): "other", Label::Component.key(): "postgres" }), false)]
#[case::ours(json!({ Label::Instance.key(): "main", Label::Component.key(): "postgres" }), true)]
fn a_claim_goes_with_the_instance_only_if_it_is_of_its_postgresql(#[case] labels: Value, #[case] goes: bool) {
    let claim = json!({ "metadata": { "name": "data-main-metadata-pg-0", "uid": "c", "labels": labels } });
    let snapshot = InstanceSnapshot {
        claim: Some(serde_json::from_value(claim).unwrap()),
        ..InstanceSnapshot::default()
    };
    let instance = instance(&json!({}), &json!({}));
    let leftovers = compare(&instance, &effective(), &snapshot, &BTreeMap::new())
        .observed
        .leftovers;
    assert_eq!(leftovers.len(), 1);
    assert_eq!(leftovers[0].meta.owned, goes);
}

#[test]
fn drift_is_accepted_for_one_rendering_and_as_it_was_left() {
    let service = |name: &str, labels: &Value| -> Service {
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": "u", "labels": labels } })).unwrap()
    };
    let rendered = service("a", &json!({ "x": "1", "y": "1" }));
    assert_eq!(AcceptedDrift::between(&rendered, &rendered), None);
    let live = service("a", &json!({ "x": "2", "y": "1" }));
    let drift = AcceptedDrift::between(&rendered, &live);
    assert!(drift.is_some());
    assert_eq!(drift, AcceptedDrift::between(&rendered, &live.clone()));
    let worse = service("a", &json!({ "x": "2" }));
    assert_ne!(drift, AcceptedDrift::between(&rendered, &worse));
    let other = service("a", &json!({ "x": "3", "y": "1" }));
    assert_ne!(drift, AcceptedDrift::between(&other, &live));
}
