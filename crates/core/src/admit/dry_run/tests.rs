use super::*;
use crate::admit::fixture::{self, CLASS};
use crate::render::engine::stateful_set;
use crate::render::instance::gateway_deployment;
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};
use crate::resolve::instance;
use rstest::rstest;
use serde_json::json;

fn rendered(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> StatefulSet {
    let facts = InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "m:7000".to_owned(),
    };
    stateful_set(&resolve(engine, class, &facts, &Defaults::example()), 0)
}

/// Index of the entry with this name in a list of the rendered pods.
fn index(set: &StatefulSet, list: &str, key: &str, name: &str) -> usize {
    let template = value(&set.spec.as_ref().unwrap().template);
    let entries = template["spec"].pointer(list).unwrap().as_array().unwrap().clone();
    entries.iter().position(|entry| entry[key] == name).unwrap()
}

fn cause(field: String) -> Cause {
    Cause {
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
fn a_cause_is_reported_at_the_field_of_the_engine(#[case] field: &str, #[case] path: &str) {
    let violation = violation_for(field);
    assert_eq!(violation.path, path);
    assert_eq!(violation.kind, ViolationKind::Invalid);
    assert_eq!(violation.message, "Rejected by Kubernetes: \"X\": must be small.");
}

#[rstest]
#[case::sidecar("containers[shipper].image", "spec.template.spec.containers[shipper].image")]
#[case::variable(
    "containers[engine].env[SHARED].value",
    "spec.template.spec.containers[engine].env[0].value"
)]
#[case::toleration("tolerations[0].key", "spec.template.spec.tolerations[0].key")]
fn a_cause_in_a_field_of_the_class_is_reported_at_the_reference_to_it(#[case] field: &str, #[case] path: &str) {
    let violation = violation_for(field);
    assert_eq!(violation.path, "spec.engineClassRef");
    let expected = format!("In FireboltEngineClass {CLASS}, {path}: Rejected by Kubernetes: \"X\": must be small.");
    assert_eq!(violation.message, expected);
}

/// The violation for a field of the rendered pods. In the field, entries of lists are identified by their key.
fn violation_for(field: &str) -> Violation {
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
    let causes = [cause(format!("spec.template.spec.{field}"))];
    engine_dry_run_violations(&engine, Some(&class), &set, &causes).remove(0)
}

#[test]
fn a_missing_part_is_described_in_words() {
    let violation = violation_for("containers[proxy].ports[0]");
    assert_eq!(violation.path, "spec.template.spec.containers[proxy]");
    let expected = "Rejected by Kubernetes at ports[0]: \"X\": must be small.";
    assert_eq!(violation.message, expected);
}

#[test]
fn a_missing_required_field_is_reported_on_the_object_that_lacks_it() {
    let engine = fixture::engine(&json!({ "spec": { "containers": [{ "name": "proxy" }] } }));
    let set = rendered(&engine, None);
    let at = index(&set, "/containers", "name", "proxy");
    let mut missing = cause(format!("spec.template.spec.containers[{at}].image"));
    "FieldValueRequired".clone_into(&mut missing.reason);
    "Required value".clone_into(&mut missing.message);
    let violation = engine_dry_run_violations(&engine, None, &set, &[missing]).remove(0);
    let expected = "spec.template.spec.containers[proxy]: Required value: Rejected by Kubernetes: image is required.";
    assert_eq!(violation.to_string(), expected);
}

#[test]
fn labels_go_by_their_key() {
    let engine = fixture::engine(&own());
    let set = rendered(&engine, None);
    let causes =
        ["spec.template.metadata.labels[a.b/c]", "spec.template.labels[a.b/c]"].map(|field| cause(field.to_owned()));
    let violations = engine_dry_run_violations(&engine, None, &set, &causes);
    assert_eq!(violations.len(), 1, "duplicates are reported once");
    assert_eq!(violations[0].path, "spec.template.metadata.labels[a.b/c]");
}

#[rstest]
#[case::claim(json!({ "persistentVolumeClaim": { "size": "1Gi" } }), "persistentVolumeClaim")]
#[case::empty_dir(json!({ "emptyDir": { "sizeLimit": "1Gi" } }), "emptyDir")]
fn the_data_volume_is_reported_under_storage(#[case] storage: Value, #[case] backend: &str) {
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
    let causes = [cause(field)];
    let inherited = engine_dry_run_violations(&engine, Some(&class), &set, &causes);
    assert_eq!(inherited[0].path, "spec.engineClassRef");
    assert!(
        inherited[0].message.contains(&format!("spec.storage.{backend}")),
        "{}",
        inherited[0]
    );
    let of_class = engine_class_dry_run_violations(&class, &set, &causes);
    assert_eq!(of_class[0].path, format!("spec.storage.{backend}"));
    engine.spec.storage = std::mem::take(&mut class.spec.storage);
    let own = engine_dry_run_violations(&engine, Some(&class), &set, &causes);
    assert_eq!(own[0].path, format!("spec.storage.{backend}"));
}

#[test]
fn what_a_class_leaves_to_its_engines_is_not_its_fault() {
    let class = fixture::engine_class(&of_class());
    let set = rendered(&fixture::engine(&json!({})), Some(&class));
    let mut missing = cause("spec.template.spec.containers[0].volumeMounts[0].name".to_owned());
    "FieldValueNotFound".clone_into(&mut missing.reason);
    assert_eq!(engine_class_dry_run_violations(&class, &set, &[missing]), []);
}

#[test]
fn components_of_an_instance_are_reported_under_their_own_template() {
    let template = json!({ "spec": { "containers": [{ "name": "proxy", "image": "p" }] } });
    let instance = fixture::instance(&json!({}), &json!({ "template": template }));
    let rendered = gateway_deployment(&instance::resolve(&instance, &Defaults::example(), false));
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
    let causes = [
        cause(format!("spec.template.spec.containers[{at}].image")),
        cause("spec.replicas".to_owned()),
    ];
    let paths: Vec<String> = gateway_dry_run_violations(&instance, &rendered, &causes)
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
    ViolationKind::Required,
    "Rejected by Kubernetes."
)]
#[case(
    "FieldValueDuplicate",
    "Duplicate value: \"a\"",
    ViolationKind::Duplicate,
    "Rejected by Kubernetes: \"a\"."
)]
#[case(
    "FieldValueNotSupported",
    "Unsupported value: \"a\"",
    ViolationKind::Invalid,
    "Rejected by Kubernetes: Unsupported value: \"a\"."
)]
fn the_words_are_those_of_kubernetes(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] kind: ViolationKind,
    #[case] text: &str,
) {
    let cause = Cause {
        field: "spec".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    assert_eq!((cause.kind(), cause.text("").as_str()), (kind, text));
}
