use super::*;
use crate::admit::fixture::{self, CLASS};
use crate::render::engine::stateful_set;
use crate::render::instance::gateway_deployment;
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};
use crate::resolve::instance;
use rstest::rstest;
use serde_json::json;

fn defaults() -> Defaults {
    Defaults {
        engine_image: "engine:1".to_owned(),
        ui_image: "ui:1".to_owned(),
        postgres_image: "postgres:1".to_owned(),
        metadata_image: "metadata:1".to_owned(),
        envoy_image: "envoy:1".to_owned(),
        wake_agent_image: "wake-agent:1".to_owned(),
        image_pull_secrets: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
    }
}

fn rendered(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> StatefulSet {
    let facts = InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "m:7000".to_owned(),
    };
    stateful_set(&resolve(engine, class, &facts, &defaults()), 0)
}

/// The index of the entry of this name in a list of the rendered pods.
fn index(set: &StatefulSet, list: &str, key: &str, name: &str) -> usize {
    let template = value(&set.spec.as_ref().unwrap().template);
    let entries = template["spec"].pointer(list).unwrap().as_array().unwrap().clone();
    entries.iter().position(|entry| entry[key] == name).unwrap()
}

fn objection(field: String) -> Objection {
    Objection {
        field,
        reason: "FieldValueInvalid".to_owned(),
        message: "Invalid value: \"X\": must be small".to_owned(),
    }
}

fn own() -> Value {
    json!({ "metadata": { "labels": { "a.b/c": "d" } }, "spec": {
        "tolerations": [{ "key": "mine" }],
        "volumes": [{ "name": "mine", "emptyDir": {} }],
        "containers": [
            { "name": "proxy", "image": "p" },
            { "name": "engine", "env": [{ "name": "MINE", "value": "1" }], "resources": { "limits": { "cpu": "1" } },
              "volumeMounts": [{ "name": "mine", "mountPath": "/mine" }] },
        ],
    } })
}

fn of_class() -> Value {
    json!({ "spec": {
        "tolerations": [{ "key": "shared" }],
        "containers": [
            { "name": "shipper", "image": "s" },
            { "name": "engine", "env": [{ "name": "SHARED", "value": "1" }], "resources": { "limits": { "cpu": "2" } } },
        ],
    } })
}

#[rstest]
#[case::sidecar("containers[proxy].image", "spec.template.spec.containers[proxy].image")]
#[case::engine(
    "containers[engine].resources.limits[cpu]",
    "spec.template.spec.containers[engine].resources.limits[cpu]"
)]
#[case::variable(
    "containers[engine].env[MINE].value",
    "spec.template.spec.containers[engine].env[0].value"
)]
#[case::mount(
    "containers[engine].volumeMounts[/mine].mountPath",
    "spec.template.spec.containers[engine].volumeMounts[0].mountPath"
)]
#[case::volume("volumes[mine].name", "spec.template.spec.volumes[0].name")]
#[case::toleration("tolerations[1].key", "spec.template.spec.tolerations[0].key")]
#[case::entry_of_the_operator("volumes[0].name", "spec.template.spec.volumes")]
fn an_objection_is_told_where_the_engine_wrote(#[case] field: &str, #[case] path: &str) {
    let violation = told(field);
    assert_eq!(violation.path, path);
    assert_eq!(violation.kind, Kind::Invalid);
    assert_eq!(violation.message, "Kubernetes does not take it: \"X\": must be small.");
}

#[rstest]
#[case::sidecar("containers[shipper].image", "spec.template.spec.containers[shipper].image")]
#[case::variable(
    "containers[engine].env[SHARED].value",
    "spec.template.spec.containers[engine].env[0].value"
)]
#[case::toleration("tolerations[0].key", "spec.template.spec.tolerations[0].key")]
fn what_comes_from_the_class_is_told_of_the_reference_to_it(#[case] field: &str, #[case] path: &str) {
    let violation = told(field);
    assert_eq!(violation.path, "spec.engineClassRef");
    let expected =
        format!("In FireboltEngineClass {CLASS}, {path}: Kubernetes does not take it: \"X\": must be small.");
    assert_eq!(violation.message, expected);
}

/// What is told of a field of the rendered pods, in which entries of lists go by what tells them apart.
fn told(field: &str) -> Violation {
    let (mut engine, class) = (fixture::engine(&own()), fixture::engine_class(&of_class()));
    engine.spec.engine_class_ref = Some(CLASS.to_owned());
    let set = rendered(&engine, Some(&class));
    let containers = |name: &str| index(&set, "/containers", "name", name);
    let mut field = field.to_owned();
    for name in ["proxy", "shipper", "engine"] {
        field = field.replace(
            &format!("containers[{name}]"),
            &format!("containers[{}]", containers(name)),
        );
    }
    let engine_lists = [
        ("env", "name", "MINE"),
        ("env", "name", "SHARED"),
        ("volumeMounts", "mountPath", "/mine"),
    ];
    for (list, key, name) in engine_lists {
        let at = index(&set, &format!("/containers/{}/{list}", containers("engine")), key, name);
        field = field.replace(&format!("{list}[{name}]"), &format!("{list}[{at}]"));
    }
    let at = index(&set, "/volumes", "name", "mine");
    field = field.replace("volumes[mine]", &format!("volumes[{at}]"));
    let objections = [objection(format!("spec.template.spec.{field}"))];
    engine_objections(&engine, Some(&class), &set, &objections).remove(0)
}

#[test]
fn a_part_that_is_not_there_is_told_in_words() {
    let violation = told("containers[proxy].ports[0]");
    assert_eq!(violation.path, "spec.template.spec.containers[proxy]");
    let expected = "Kubernetes does not take it, at ports[0]: \"X\": must be small.";
    assert_eq!(violation.message, expected);
}

#[test]
fn what_is_required_is_told_of_what_lacks_it() {
    let engine = fixture::engine(&json!({ "spec": { "containers": [{ "name": "proxy" }] } }));
    let set = rendered(&engine, None);
    let at = index(&set, "/containers", "name", "proxy");
    let mut missing = objection(format!("spec.template.spec.containers[{at}].image"));
    "FieldValueRequired".clone_into(&mut missing.reason);
    "Required value".clone_into(&mut missing.message);
    let violation = engine_objections(&engine, None, &set, &[missing]).remove(0);
    let expected = "spec.template.spec.containers[proxy]: Required value: Kubernetes does not take it without image.";
    assert_eq!(violation.to_string(), expected);
}

#[test]
fn labels_go_by_their_key() {
    let engine = fixture::engine(&own());
    let set = rendered(&engine, None);
    let objections = ["spec.template.metadata.labels[a.b/c]", "spec.template.labels[a.b/c]"]
        .map(|field| objection(field.to_owned()));
    let violations = engine_objections(&engine, None, &set, &objections);
    assert_eq!(violations.len(), 1, "the same is told once");
    assert_eq!(violations[0].path, "spec.template.metadata.labels[a.b/c]");
}

#[rstest]
#[case::claim(json!({ "persistentVolumeClaim": { "size": "1Gi" } }), "persistentVolumeClaim")]
#[case::empty_dir(json!({ "emptyDir": { "sizeLimit": "1Gi" } }), "emptyDir")]
fn the_place_of_the_data_is_told_of_storage(#[case] storage: Value, #[case] backend: &str) {
    let mut engine = fixture::engine(&own());
    engine.spec.storage = serde_json::from_value(storage).unwrap();
    let set = rendered(&engine, None);
    let field = match backend {
        "emptyDir" => format!(
            "spec.template.spec.volumes[{}].emptyDir",
            index(&set, "/volumes", "name", "data")
        ),
        _ => "spec.volumeClaimTemplates[0].spec.resources".to_owned(),
    };
    let mut class = fixture::engine_class(&json!({}));
    class.spec.storage = std::mem::take(&mut engine.spec.storage);
    let objections = [objection(field)];
    let inherited = engine_objections(&engine, Some(&class), &set, &objections);
    assert_eq!(inherited[0].path, "spec.engineClassRef");
    assert!(
        inherited[0].message.contains(&format!("spec.storage.{backend}")),
        "{}",
        inherited[0]
    );
    let of_class = engine_class_objections(&class, &set, &objections);
    assert_eq!(of_class[0].path, format!("spec.storage.{backend}"));
    engine.spec.storage = std::mem::take(&mut class.spec.storage);
    let own = engine_objections(&engine, Some(&class), &set, &objections);
    assert_eq!(own[0].path, format!("spec.storage.{backend}"));
}

#[test]
fn what_a_class_leaves_to_its_engines_is_not_its_fault() {
    let class = fixture::engine_class(&of_class());
    let set = rendered(&fixture::engine(&json!({})), Some(&class));
    let mut missing = objection("spec.template.spec.containers[0].volumeMounts[0].name".to_owned());
    "FieldValueNotFound".clone_into(&mut missing.reason);
    assert_eq!(engine_class_objections(&class, &set, &[missing]), []);
}

#[test]
fn components_of_an_instance_are_told_of_their_own_template() {
    let template = json!({ "spec": { "containers": [{ "name": "proxy", "image": "p" }] } });
    let instance = fixture::instance(&json!({}), &json!({ "template": template }));
    let rendered = gateway_deployment(&instance::resolve(&instance, &defaults(), false));
    let containers = &rendered
        .spec
        .as_ref()
        .unwrap()
        .template
        .spec
        .as_ref()
        .unwrap()
        .containers;
    let at = containers
        .iter()
        .position(|container| container.name == "proxy")
        .unwrap();
    let objections = [
        objection(format!("spec.template.spec.containers[{at}].image")),
        objection("spec.replicas".to_owned()),
    ];
    let paths: Vec<String> = gateway_objections(&instance, &rendered, &objections)
        .into_iter()
        .map(|violation| violation.path)
        .collect();
    assert_eq!(
        paths,
        ["spec.gateway.template.spec.containers[proxy].image", "spec.gateway"]
    );
}

#[rstest]
#[case(
    "FieldValueRequired",
    "Required value",
    Kind::Required,
    "Kubernetes does not take it like this."
)]
#[case(
    "FieldValueDuplicate",
    "Duplicate value: \"a\"",
    Kind::Duplicate,
    "Kubernetes does not take it: \"a\"."
)]
#[case(
    "FieldValueNotSupported",
    "Unsupported value: \"a\"",
    Kind::Invalid,
    "Kubernetes does not take it: Unsupported value: \"a\"."
)]
fn the_words_are_those_of_kubernetes(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] kind: Kind,
    #[case] said: &str,
) {
    let objection = Objection {
        field: "spec".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    assert_eq!((objection.kind(), objection.said("").as_str()), (kind, said));
}
