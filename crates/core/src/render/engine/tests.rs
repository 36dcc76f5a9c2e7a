//! Snapshots of complete sets of rendered objects, and properties of every rendered object.

use std::fmt::Write;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::apps::v1::StatefulSet;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};

/// An engine called `analytics`, resolved with a class that has the given spec, if any.
fn effective(engine: &Value, class: Option<Value>) -> EffectiveEngine {
    let mut spec = json!({ "instanceRef": "main", "replicas": 2 });
    for (key, value) in engine.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let engine: FireboltEngine = serde_json::from_value(json!({
        "apiVersion": "v", "kind": "FireboltEngine",
        "metadata": { "name": "analytics", "namespace": "data", "uid": "engine-uid" }, "spec": spec,
    }))
    .expect("an engine");
    let class: Option<FireboltEngineClass> = class.map(|spec| {
        let class = json!({ "apiVersion": "v", "kind": "FireboltEngineClass", "metadata": {}, "spec": spec });
        serde_json::from_value(class).expect("a class")
    });
    let instance = InstanceFacts {
        id: "01J00000000000000000000000".to_owned(),
        metadata_endpoint: "main-metadata.data.svc.cluster.local:7000".to_owned(),
    };
    resolve(&engine, class.as_ref(), &instance, &Defaults::example())
}

fn everything(engine: &EffectiveEngine, generation: i64) -> String {
    let mut text = String::new();
    let objects = [
        firebolt_api::to_yaml(&config_map(engine, generation)),
        firebolt_api::to_yaml(&headless_service(engine, generation)),
        firebolt_api::to_yaml(&stateful_set(engine, generation)),
        firebolt_api::to_yaml(&routing_service(engine, generation)),
    ];
    for object in objects {
        write!(text, "---\n{object}").expect("write to a text");
    }
    text
}

#[rstest]
#[case::bare(json!({}), None)]
#[case::stopped(json!({ "replicas": 0 }), None)]
#[case::claim(json!({ "storage": { "persistentVolumeClaim": { "size": "10Gi", "storageClassName": "fast" } } }), None)]
#[case::memory(json!({ "storage": { "emptyDir": { "medium": "Memory", "sizeLimit": "1Gi" } } }), None)]
#[case::host_path(json!({ "storage": { "hostPath": { "path": "/data", "type": "DirectoryOrCreate" } } }), None)]
#[case::ui(json!({ "uiSidecar": true }), None)]
#[case::config(json!({ "customEngineConfig": { "logging": { "level": "debug" }, "engine": { "memory": 1, "nodes": [] } } }), None)]
#[case::own_metadata_service(json!({ "metadataEndpointOverride": "far.example:7000" }), None)]
#[case::template(json!({ "template": {
    "metadata": { "labels": { "team": "data" }, "annotations": { "a.example/b": "c" } },
    "spec": {
        "serviceAccountName": "engines", "nodeSelector": { "pool": "engines" },
        "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
        "volumes": [{ "name": "cache", "emptyDir": {} }, { "name": "data", "emptyDir": {} }],
        "initContainers": [{ "name": "warm", "image": "warm:1" }],
        "containers": [
            { "name": "proxy", "image": "proxy:1" },
            {
                "name": "engine", "image": "engine:9", "resources": { "limits": { "cpu": 4, "memory": "16Gi" } },
                "env": [{ "name": "A", "value": "1" }],
                "volumeMounts": [{ "name": "cache", "mountPath": "/cache" }, { "name": "data", "mountPath": "/steal" }],
            },
        ],
    },
} }), None)]
#[case::class(json!({ "template": { "metadata": { "labels": { "team": "data" } } } }), Some(json!({
    "template": {
        "metadata": { "labels": { "team": "platform", "tier": "gold" } },
        "spec": { "containers": [{ "name": "engine", "image": "class:1" }, { "name": "agent", "image": "agent:1" }] },
    },
    "customEngineConfig": { "logging": { "level": "warning" } }, "storage": { "persistentVolumeClaim": {} },
})))]
fn renders(#[case] engine: Value, #[case] class: Option<Value>) {
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    // The name of the case, after the number that orders it.
    let case = name
        .rsplit("case_")
        .next()
        .and_then(|case| case.split_once('_'))
        .expect("a case")
        .1;
    insta::assert_snapshot!(case, everything(&effective(&engine, class), 3));
}

/// Of the 60 seconds that a pod gets, those before SIGTERM and those for the shutdown are not for queries.
#[rstest]
#[case::by_default(json!(null), 50)]
#[case::another_sleep(json!({ "preStop": { "sleep": { "seconds": 20 } } }), 35)]
#[case::nothing_left(json!({ "preStop": { "sleep": { "seconds": 58 } } }), 1)]
#[case::a_command_of_unknown_duration(json!({ "preStop": { "exec": { "command": ["a"] } } }), 50)]
#[case::no_hook(json!({ "postStart": { "exec": { "command": ["a"] } } }), 55)]
fn the_engine_knows_how_long_it_can_finish_queries(#[case] lifecycle: Value, #[case] seconds: i64) {
    let container = json!({ "name": "engine", "lifecycle": lifecycle });
    let template = json!({ "template": { "spec": { "containers": [container] } } });
    let config = config_map::config(&effective(&template, None), 3, 2);
    assert_eq!(
        config["engine"]["termination_grace_period"],
        json!(format!("{seconds}s"))
    );
}

#[test]
fn a_label_of_a_user_cannot_move_a_pod_into_another_generation() {
    let labels = json!({ Label::Generation.key(): "9", Label::Engine.key(): "other" });
    let labels = json!({ "metadata": { "labels": labels } });
    let engine = effective(&json!({ "template": labels }), None);
    let pods = stateful_set(&engine, 3)
        .spec
        .expect("a spec")
        .template
        .metadata
        .expect("metadata")
        .labels;
    assert_eq!(pods, Some(generation_labels(&engine, 3)));
}

#[test]
fn the_template_hash_is_the_same_in_every_generation() {
    let engine = effective(&json!({}), None);
    let recorded = |generation| {
        let annotations = stateful_set(&engine, generation)
            .metadata
            .annotations
            .expect("annotations");
        annotations[firebolt_api::key::Annotation::TemplateHash.key()].clone()
    };
    assert_eq!(recorded(0), template_hash(&engine));
    assert_eq!(recorded(41), template_hash(&engine));
}

/// With a new text here, engines of earlier versions are recognised by less: see `compare`.
#[test]
fn the_template_hash_of_a_minimal_engine_never_changes() {
    insta::assert_snapshot!(template_hash(&effective(&json!({}), None)), @"2-f4257bc0c5cd1add");
}

#[rstest]
#[case::storage(json!({ "storage": { "persistentVolumeClaim": {} } }))]
#[case::storage_size(json!({ "storage": { "persistentVolumeClaim": { "size": "2Gi" } } }))]
#[case::ui(json!({ "uiSidecar": true }))]
#[case::config(json!({ "customEngineConfig": { "cache": 1 } }))]
#[case::metadata_service(json!({ "metadataEndpointOverride": "far:7000" }))]
#[case::image(json!({ "template": { "spec": { "containers": [{ "name": "engine", "image": "other:1" }] } } }))]
#[case::env(json!({ "template": { "spec": { "containers": [{ "name": "engine", "env": [{ "name": "A", "value": "1" }] }] } } }))]
#[case::volume(json!({ "template": { "spec": { "volumes": [{ "name": "v" }] } } }))]
#[case::pull_secret(json!({ "template": { "spec": { "imagePullSecrets": [{ "name": "s" }] } } }))]
#[case::annotation(json!({ "template": { "metadata": { "annotations": { "a": "b" } } } }))]
#[case::empty_label(json!({ "template": { "metadata": { "labels": { "a": "" } } } }))]
#[case::empty_annotation(json!({ "template": { "metadata": { "annotations": { "a": "" } } } }))]
#[case::empty_node_label(json!({ "template": { "spec": { "nodeSelector": { "a": "" } } } }))]
#[case::config_with_an_empty_list(json!({ "customEngineConfig": { "x": [] } }))]
#[case::config_with_an_empty_object(json!({ "customEngineConfig": { "x": {} } }))]
#[case::config_with_null(json!({ "customEngineConfig": { "x": null } }))]
#[case::config_with_an_empty_text(json!({ "customEngineConfig": { "x": "" } }))]
fn a_change_of_the_pods_changes_the_template_hash(#[case] change: Value) {
    assert_ne!(
        template_hash(&effective(&change, None)),
        template_hash(&effective(&json!({}), None))
    );
}

#[rstest]
#[case::rollout(json!({ "rollout": "recreate" }))]
#[case::drain_check(json!({ "drainCheckEnabled": false }))]
#[case::drain_interval(json!({ "drainCheckInterval": "9s" }))]
#[case::auto_stop(json!({ "autoStop": { "enabled": true, "activeReplicas": 5 } }))]
#[case::stripped_config(json!({ "customEngineConfig": { "schema_version": "9" } }))]
#[case::empty_texts(json!({ "template": { "spec": { "serviceAccountName": "", "containers": [{ "name": "engine", "image": "" }] } } }))]
#[case::default_medium(json!({ "storage": { "emptyDir": { "medium": "" } } }))]
#[case::empty_template(json!({ "template": { "metadata": { "labels": {} }, "spec": { "containers": [], "tolerations": [] } } }))]
#[case::explicit_default(json!({ "storage": { "emptyDir": {} }, "uiSidecar": false }))]
fn a_change_that_does_not_affect_the_pods_keeps_the_template_hash(#[case] change: Value) {
    assert_eq!(
        template_hash(&effective(&change, None)),
        template_hash(&effective(&json!({}), None))
    );
}

#[rstest]
#[case::rollout(json!({ "rollout": "recreate" }))]
#[case::drain_check(json!({ "drainCheckEnabled": false }))]
#[case::drain_interval(json!({ "drainCheckInterval": "9s" }))]
#[case::auto_stop(json!({ "autoStop": { "enabled": true, "activeReplicas": 5 } }))]
fn a_change_of_the_class_that_does_not_affect_the_pods_keeps_the_template_hash(#[case] change: Value) {
    let mut class = json!({ "template": {} });
    let plain = template_hash(&effective(&json!({}), Some(class.clone())));
    class
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    assert_eq!(template_hash(&effective(&json!({}), Some(class))), plain);
}

#[test]
fn the_number_of_replicas_is_not_part_of_the_hashes() {
    let hashes = |replicas: i32| {
        let engine = effective(&json!({ "replicas": replicas }), None);
        (template_hash(&engine), rendering_hash(&engine))
    };
    assert_eq!(hashes(0), hashes(3));
}

/// Another version of the operator, or other defaults: what users said is the same.
#[test]
fn defaults_of_the_operator_change_the_rendering_hash_alone() {
    let engine = effective(&json!({}), None);
    let mut upgraded = engine.clone();
    upgraded.template.spec.as_mut().unwrap().containers[0].image = Some("engine:2".to_owned());
    assert_eq!(template_hash(&engine), template_hash(&upgraded));
    let parts = outdated_parts(Some(&rendering_hash(&engine)), &rendering_hash(&upgraded));
    assert_eq!(parts, ["container `engine`"]);
}

/// Copies of what ran last, for another number of pods.
#[test]
fn a_copy_differs_from_a_rendering_in_nothing_but_the_number_of_pods() {
    let storage = json!({ "storage": { "persistentVolumeClaim": {} }, "uiSidecar": true });
    let before = effective(&storage, None);
    let mut scaled = before.clone();
    scaled.replicas = 5;
    let copied = copied_stateful_set(&scaled, 9, &stateful_set(&before, 3));
    assert_eq!(copied, stateful_set(&scaled, 9));
    let copied = copied_config_map(&scaled, 9, &config_map(&before, 3));
    assert_eq!(copied, config_map(&scaled, 9));
}

#[test]
fn a_copy_keeps_what_cannot_be_rendered_any_more() {
    let before = effective(&json!({ "customEngineConfig": { "cache": 1 } }), None);
    let set = stateful_set(&before, 3);
    let mut gated = effective(&json!({}), None);
    gated.replicas = 1;
    let copied = copied_stateful_set(&gated, 4, &set);
    let hash = |set: &StatefulSet| set.metadata.annotations.clone();
    assert_eq!(hash(&copied), hash(&set));
    let text = copied_config_map(&gated, 4, &config_map(&before, 3))
        .data
        .unwrap()
        .remove(CONFIG_FILE)
        .unwrap();
    assert!(text.contains("cache: 1") && text.contains("analytics-g4-0."), "{text}");
    assert!(
        !text.contains("analytics-g3") && !text.contains("analytics-g4-1."),
        "{text}"
    );
    assert!(has_recorded_data(&copied_config_map(
        &gated,
        4,
        &config_map(&before, 3)
    )));
}

#[test]
fn where_a_setting_comes_from_does_not_matter() {
    let template = json!({ "spec": { "containers": [{ "name": "engine", "image": "same:1" }] } });
    let own = effective(&json!({ "template": template }), None);
    let of_class = effective(&json!({}), Some(json!({ "template": template })));
    assert_eq!(template_hash(&own), template_hash(&of_class));
}

/// To the API server, a claim without a class differs from one of the default class.
#[test]
fn a_claim_without_a_storage_class_has_another_template_hash() {
    let claim = |settings: Value| effective(&json!({ "storage": { "persistentVolumeClaim": settings } }), None);
    let without_class = claim(json!({ "storageClassName": "" }));
    assert_ne!(template_hash(&without_class), template_hash(&claim(json!({}))));
    let claims = stateful_set(&without_class, 0)
        .spec
        .and_then(|spec| spec.volume_claim_templates);
    let spec = claims.expect("claims").remove(0).spec.expect("a spec");
    assert_eq!(spec.storage_class_name.as_deref(), Some(""));
}

#[rstest]
#[case::of_the_engine(json!({ "accessModes": [] }), None)]
#[case::of_the_class(json!(null), Some(json!({ "accessModes": [] })))]
fn a_claim_without_access_modes_is_read_and_written_by_one_node(#[case] engine: Value, #[case] class: Option<Value>) {
    let storage = |claim: Value| json!({ "template": {}, "storage": { "persistentVolumeClaim": claim } });
    let engine = if engine.is_null() { json!({}) } else { storage(engine) };
    let found = effective(&engine, class.map(storage));
    let claims = stateful_set(&found, 0)
        .spec
        .and_then(|spec| spec.volume_claim_templates);
    let spec = claims.expect("claims").remove(0).spec.expect("a spec");
    assert_eq!(spec.access_modes, Some(vec!["ReadWriteOnce".to_owned()]));
    assert_eq!(
        template_hash(&found),
        template_hash(&effective(&storage(json!({})), None))
    );
}

fn any_config() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(false)),
        Just(json!(0)),
        Just(json!("")),
        Just(json!([])),
        Just(json!({})),
        Just(json!("x")),
    ];
    let tree = leaf.prop_recursive(2, 8, 2, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| json!(items)),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    });
    prop::collection::btree_map("[ab]|logging|engine", tree, 0..3).prop_map(|map| json!(map))
}

proptest! {
    /// Otherwise the ConfigMap of a running generation would be changed in place.
    #[test]
    fn another_configuration_file_has_another_template_hash(
        (one, other) in (any_config(), any_config()),
        by_class in any::<bool>(),
    ) {
        let of = |config: &Value| {
            let settings = json!({ "template": {}, "customEngineConfig": config });
            if by_class { effective(&json!({}), Some(settings)) } else { effective(&settings, None) }
        };
        let (one, other) = (of(&one), of(&other));
        let same_file = config_map(&one, 0).data == config_map(&other, 0).data;
        let same_hash = template_hash(&one) == template_hash(&other);
        prop_assert!(same_file || !same_hash, "{one:?} {other:?}");
    }
}
