use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use testkit::cost::cpu_time;

use super::*;
use crate::render::engine::{config_map, stateful_set};
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};

const GENERATION: i64 = 3;

fn engine(spec: &Value) -> FireboltEngine {
    let mut all = json!({ "instanceRef": "i", "replicas": 2 });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let engine = json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": "a", "uid": "u" }, "spec": all });
    serde_json::from_value(engine).unwrap()
}

fn class(spec: &Value) -> FireboltEngineClass {
    let class = json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": "small" }, "spec": spec });
    serde_json::from_value(class).unwrap()
}

fn facts() -> InstanceFacts {
    InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "m:7000".to_owned(),
    }
}

fn rendered(
    engine: &FireboltEngine,
    class: &FireboltEngineClass,
    facts: &InstanceFacts,
    defaults: &Defaults,
) -> (StatefulSet, ConfigMap) {
    let effective = resolve(engine, Some(class), facts, defaults);
    (stateful_set(&effective, GENERATION), config_map(&effective, GENERATION))
}

fn rendering((set, config_map): &(StatefulSet, ConfigMap)) -> Rendering<'_> {
    Rendering {
        set,
        config_map: Some(config_map),
    }
}

fn container(container: &Value) -> Value {
    let mut named = json!({ "name": "engine" });
    named
        .as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    json!({ "template": { "spec": { "containers": [named] } } })
}

fn pod(spec: &Value) -> Value {
    json!({ "template": { "spec": spec } })
}

fn none() -> Value {
    json!({ "template": {} })
}

#[rstest]
#[case::nothing(json!({}), json!({}), none(), none(), &[])]
#[case::image_of_the_engine(container(&json!({ "image": "e:1" })), container(&json!({ "image": "e:2" })), none(), none(),
    &["`spec.template.spec.containers[engine].image` changed from e:1 to e:2"])]
#[case::image_of_the_class(json!({}), json!({}), container(&json!({ "image": "e:1" })), container(&json!({ "image": "e:2" })),
    &["`spec.template.spec.containers[engine].image` of class small changed from e:1 to e:2"])]
#[case::amount(container(&json!({ "resources": { "limits": { "cpu": "1" } } })), container(&json!({ "resources": { "limits": { "cpu": "2" } } })), none(), none(),
    &["`spec.template.spec.containers[engine].resources.limits.cpu` changed from 1 to 2"])]
#[case::a_variable_may_be_secret(container(&json!({ "env": [{ "name": "A", "value": "x" }] })), container(&json!({ "env": [{ "name": "A", "value": "y" }] })), none(), none(),
    &["`spec.template.spec.containers[engine].env[A]` changed"])]
#[case::label(json!({}), json!({ "template": { "metadata": { "labels": { "example.com/x": "y" } } } }), none(), none(),
    &["`spec.template.metadata.labels.example.com/x` changed"])]
#[case::service_account(pod(&json!({ "serviceAccountName": "one" })), pod(&json!({ "serviceAccountName": "two" })), none(), none(),
    &["`spec.template.spec.serviceAccountName` changed from one to two"])]
#[case::field_removed_by_the_engine(container(&json!({ "image": "e:1" })), json!({}), none(), none(),
    &["`spec.containers[engine].image` of the pods changed from e:1 to registry.example/engine:1.2.3"])]
#[case::web_ui(json!({}), json!({ "uiSidecar": true }), none(), none(), &["`spec.uiSidecar` changed from false to true"])]
#[case::web_ui_no_longer_of_the_class(json!({}), json!({}), json!({ "template": {}, "uiSidecar": true }), none(),
    &["`spec.uiSidecar` changed from true to false"])]
#[case::web_ui_set_by_the_class(json!({}), json!({}), none(), json!({ "template": {}, "uiSidecar": true }),
    &["`spec.uiSidecar` of class small changed from false to true"])]
#[case::web_ui_removed_by_the_engine(json!({ "uiSidecar": true }), json!({}), none(), none(), &["`spec.uiSidecar` changed from true to false"])]
#[case::storage_removed_by_the_engine(json!({ "storage": { "hostPath": { "path": "/d" } } }), json!({}), none(), none(),
    &["`spec.storage` changed from hostPath to emptyDir"])]
#[case::endpoint(json!({}), json!({ "metadataEndpointOverride": "other:7000" }), none(), none(),
    &["`spec.metadataEndpointOverride` changed from m:7000 to other:7000"])]
#[case::long_value(json!({ "storage": { "hostPath": { "path": "/a" } } }), json!({ "storage": { "hostPath": { "path": "/b".repeat(50) } } }), none(), none(),
    &["`spec.storage.hostPath.path` changed"])]
#[case::default_of_the_operator(json!({ "customEngineConfig": { "logging": { "format": "text" } } }), json!({}), none(), none(),
    &["`logging.format` of the engine configuration changed"])]
#[case::label_removed_and_scaled(json!({ "template": { "metadata": { "labels": { "x": "y" } } } }), json!({ "replicas": 3 }), none(), none(), &[])]
#[case::storage(json!({}), json!({ "storage": { "hostPath": { "path": "/d" } } }), none(), none(),
    &["`spec.storage` changed from emptyDir to hostPath"])]
#[case::storage_of_the_class(json!({}), json!({}), none(), json!({ "template": {}, "storage": { "persistentVolumeClaim": {} } }),
    &["`spec.storage` of class small changed from emptyDir to persistentVolumeClaim"])]
#[case::size(json!({ "storage": { "persistentVolumeClaim": { "size": "1Gi" } } }), json!({ "storage": { "persistentVolumeClaim": { "size": "2Gi" } } }), none(), none(),
    &["`spec.storage.persistentVolumeClaim.size` changed from 1Gi to 2Gi"])]
#[case::same_size(json!({ "storage": { "persistentVolumeClaim": { "size": "1Gi" } } }), json!({ "storage": { "persistentVolumeClaim": { "size": "1024Mi" } } }), none(), none(), &[])]
#[case::storage_class(json!({ "storage": { "persistentVolumeClaim": {} } }), json!({ "storage": { "persistentVolumeClaim": { "storageClassName": "fast" } } }), none(), none(),
    &["`spec.storage.persistentVolumeClaim.storageClassName` changed"])]
#[case::limit(json!({ "storage": { "emptyDir": { "sizeLimit": "1Gi" } } }), json!({ "storage": { "emptyDir": { "sizeLimit": "2Gi" } } }), none(), none(),
    &["`spec.storage.emptyDir.sizeLimit` changed from 1Gi to 2Gi"])]
#[case::path(json!({ "storage": { "hostPath": { "path": "/a" } } }), json!({ "storage": { "hostPath": { "path": "/b" } } }), none(), none(),
    &["`spec.storage.hostPath.path` changed from /a to /b"])]
#[case::config(json!({}), json!({ "customEngineConfig": { "x": 1 } }), none(), none(), &["`spec.customEngineConfig.x` changed"])]
#[case::config_deep_down(json!({ "customEngineConfig": { "a": { "b.c": 1, "d": 2 } } }), json!({ "customEngineConfig": { "a": { "b.c": 2, "d": 2 } } }), none(), none(),
    &["`spec.customEngineConfig.a.b.c` changed"])]
#[case::config_of_the_class(json!({}), json!({}), none(), json!({ "template": {}, "customEngineConfig": { "x": 1 } }),
    &["`spec.customEngineConfig.x` of class small changed"])]
#[case::config_removed(json!({ "customEngineConfig": { "x": 1 } }), json!({}), none(), none(), &["`x` was removed from the engine configuration"])]
#[case::label_removed_from_the_class(json!({}), json!({}), json!({ "template": { "metadata": { "labels": { "x": "y" } } } }), none(),
    &["`metadata.labels.x` was removed from the pods (class small changed)"])]
#[case::empty_node_label(json!({}), pod(&json!({ "nodeSelector": { "infra": "" } })), none(), none(), &["`spec.template.spec.nodeSelector` changed"])]
#[case::empty_node_label_removed(pod(&json!({ "nodeSelector": { "infra": "" } })), json!({}), none(), none(), &["`spec.nodeSelector` was removed from the pods"])]
#[case::empty_text_leaves_it_to_the_class(json!({}), container(&json!({ "image": "" })), container(&json!({ "image": "e:1" })), container(&json!({ "image": "e:2" })),
    &["`spec.template.spec.containers[engine].image` of class small changed from e:1 to e:2"])]
#[case::no_storage_class(json!({ "storage": { "persistentVolumeClaim": {} } }), json!({ "storage": { "persistentVolumeClaim": { "storageClassName": "" } } }), none(), none(),
    &["`spec.storage.persistentVolumeClaim.storageClassName` changed"])]
#[case::config_with_null(json!({}), json!({ "customEngineConfig": { "x": null } }), none(), none(), &["`spec.customEngineConfig.x` changed"])]
#[case::config_without_null(json!({ "customEngineConfig": { "x": null } }), json!({}), none(), none(), &["`x` was removed from the engine configuration"])]
#[case::config_with_an_empty_list(json!({}), json!({ "customEngineConfig": { "x": [] } }), none(), none(), &["`spec.customEngineConfig.x` changed"])]
#[case::removed(json!({ "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } }), json!({}), none(), none(), &["`spec.nodeSelector` was removed from the pods"])]
#[case::variable_removed(container(&json!({ "env": [{ "name": "A", "value": "x" }] })), json!({}), none(), none(), &["`spec.containers[engine].env[A]` was removed from the pods"])]
fn changes_are_named_by_the_fields_that_users_set(
    #[case] engine_before: Value,
    #[case] engine_after: Value,
    #[case] class_before: Value,
    #[case] class_after: Value,
    #[case] expected: &[&str],
) {
    let defaults = Defaults::example();
    let before = rendered(&engine(&engine_before), &class(&class_before), &facts(), &defaults);
    let (engine, class) = (engine(&engine_after), class(&class_after));
    let after = rendered(&engine, &class, &facts(), &defaults);
    assert_eq!(
        changes(&engine, Some(&class), rendering(&after), rendering(&before)),
        expected
    );
}

/// What changed outside of the engine and its class: the instance, and the flags of the operator.
#[rstest]
#[case::metadata_endpoint(InstanceFacts { metadata_endpoint: "n:7000".to_owned(), ..facts() }, Defaults::example(), "the metadata endpoint changed from m:7000 to n:7000")]
#[case::id(InstanceFacts { id: "01K".to_owned(), ..facts() }, Defaults::example(), "the ID of the instance changed from 01J to 01K")]
#[case::cluster_domain(facts(), Defaults { cluster_domain: "example.org".to_owned(), ..Defaults::example() }, "the cluster domain (`--cluster-domain`) changed")]
fn what_changed_elsewhere_is_named(
    #[case] facts_after: InstanceFacts,
    #[case] defaults: Defaults,
    #[case] expected: &str,
) {
    let (engine, class) = (engine(&json!({})), class(&none()));
    let before = rendered(&engine, &class, &facts(), &Defaults::example());
    let after = rendered(&engine, &class, &facts_after, &defaults);
    assert_eq!(
        changes(&engine, Some(&class), rendering(&after), rendering(&before)),
        [expected]
    );
}

#[test]
fn without_the_live_config_map_only_its_hash_is_compared() {
    let class = class(&none());
    let before = rendered(&engine(&json!({})), &class, &facts(), &Defaults::example());
    let engine = engine(&json!({ "customEngineConfig": { "x": 1 } }));
    let after = rendered(&engine, &class, &facts(), &Defaults::example());
    let live = Rendering {
        config_map: None,
        ..rendering(&before)
    };
    let found = changes(&engine, Some(&class), rendering(&after), live);
    assert_eq!(found, ["`spec.customEngineConfig` changed"]);
}

#[test]
fn a_change_has_a_limited_length() {
    let key = "k".repeat(10_000);
    let class = class(&none());
    let before = rendered(&engine(&json!({})), &class, &facts(), &Defaults::example());
    let engine = engine(&json!({ "customEngineConfig": { key: 1 } }));
    let after = rendered(&engine, &class, &facts(), &Defaults::example());
    let found = changes(&engine, Some(&class), rendering(&after), rendering(&before));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("`spec.customEngineConfig.kkk") && found[0].chars().count() == LONGEST_CHANGE);
}

/// Users determine how much changes, so the cost must be linear.
#[rstest]
#[case::configuration_of_the_engine(|count, to| (json!({ "customEngineConfig": settings(count, to) }), none()))]
#[case::configuration_of_the_class(|count, to| (json!({}), json!({ "template": {}, "customEngineConfig": settings(count, to) })))]
#[case::variables(|count, to| (container(&json!({ "env": variables(count, to) })), none()))]
#[case::variables_of_the_class(|count, to| (json!({}), container(&json!({ "env": variables(count, to) }))))]
#[case::containers(|count, to| (pod(&json!({ "containers": images(count, to) })), none()))]
#[case::removed(|count, to| (container(&json!({ "env": variables(if to == 1 { count } else { count / 2 }, 1) })), none()))]
fn the_cost_is_linear_in_the_number_of_changes(#[case] specs: fn(usize, usize) -> (Value, Value)) {
    let effort = |count: usize| -> Duration {
        let states = [1, 2].map(|value| {
            let (own, by_class) = specs(count, value);
            let (engine, class) = (engine(&own), class(&by_class));
            let objects = rendered(&engine, &class, &facts(), &Defaults::example());
            (engine, class, objects)
        });
        let [(.., live), (engine, class, desired)] = &states;
        assert!(!changes(engine, Some(class), rendering(desired), rendering(live)).is_empty());
        cpu_time(|| {
            std::hint::black_box(changes(engine, Some(class), rendering(desired), rendering(live)));
        })
    };
    let (few, many) = (effort(1_000), effort(8_000));
    // Eight times as many take eight times as long, or 64 times if each is compared with each other.
    assert!(many < few * 24, "{few:?} for few, {many:?} for eight times as many");
}

fn settings(count: usize, value: usize) -> Value {
    let fields = (0..count).map(|index| (format!("key{index}"), json!(value)));
    Value::Object(fields.collect())
}

fn variables(count: usize, value: usize) -> Value {
    let entry = |index: usize| json!({ "name": format!("A{index}"), "value": value.to_string() });
    (0..count).map(entry).collect()
}

fn images(count: usize, value: usize) -> Value {
    let entry = |index: usize| json!({ "name": format!("c{index}"), "image": format!("i:{value}") });
    (0..count).map(entry).collect()
}

#[test]
fn control_characters_of_live_objects_are_not_repeated() {
    let (engine, class) = (engine(&json!({})), class(&none()));
    let objects = rendered(&engine, &class, &facts(), &Defaults::example());
    let mut live = objects.clone();
    let text = live.1.data.as_mut().unwrap().values_mut().next().unwrap();
    assert!(text.contains("01J"));
    *text = text.replace("01J", "\"0\\n\\e[31m1\"");
    let found = changes(&engine, Some(&class), rendering(&objects), rendering(&live));
    assert_eq!(found, ["the ID of the instance changed from 0  [31m1 to 01J"]);
}
