//! Fields that are removed from the spec.

use firebolt_api::EnginePhase::Stable;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::fixtures::{IMAGE, engine, sparse_sidecar};
use crate::testenv::{Namespaced, TestEnv};

/// The engine container, with something added to it.
fn container(more: &Value) -> Value {
    let mut container = json!({ "name": "engine", "image": IMAGE });
    let fields = more.as_object().expect("fields").clone();
    container.as_object_mut().expect("fields").extend(fields);
    container
}

fn plain() -> Value {
    container(&json!({}))
}

/// The pod template of an object, or the pod itself.
async fn text<K: Namespaced>(env: &TestEnv, name: &str, pointers: &[&str]) -> String {
    let object = serde_json::to_value(env.the::<K>(name).await).unwrap();
    let parts = pointers.iter().filter_map(|pointer| object.pointer(pointer));
    parts.map(Value::to_string).collect()
}

/// A field of the spec that the test removes.
struct Case {
    /// The name of the engine.
    name: &'static str,
    template: Value,
    removal: Value,
    /// How it appears in the pods.
    needle: &'static str,
}

fn metadata(key: &str, entries: &Value) -> Value {
    json!({ "metadata": { key: entries } })
}

fn pod(more: &Value) -> Value {
    let mut spec = json!({ "containers": [plain()] });
    let fields = more.as_object().expect("fields").clone();
    spec.as_object_mut().expect("fields").extend(fields);
    json!({ "metadata": { "labels": { "kept": "kept-marker" } }, "spec": spec })
}

fn with_metadata(key: &str, entries: Value) -> Value {
    let mut template = pod(&json!({}));
    template["metadata"][key] = entries;
    template
}

fn cases() -> Vec<Case> {
    let variables = json!({ "env": [{ "name": "A", "value": "kept-marker" }, { "name": "B", "value": "marker" }] });
    let variable = json!({ "env": [{ "name": "A", "value": "kept-marker" }] });
    let tolerations = json!([
        { "key": "kept-marker", "operator": "Exists" },
        { "key": "marker", "operator": "Exists" },
    ]);
    vec![
        Case {
            name: "label",
            template: with_metadata("labels", json!({ "removed": "marker", "kept": "kept-marker" })),
            removal: metadata("labels", &json!({ "removed": null })),
            needle: "\"marker\"",
        },
        Case {
            name: "annotation",
            template: with_metadata("annotations", json!({ "removed": "marker", "kept": "kept-marker" })),
            removal: metadata("annotations", &json!({ "removed": null })),
            needle: "\"marker\"",
        },
        Case {
            name: "toleration",
            template: pod(&json!({ "tolerations": tolerations })),
            removal: json!({ "spec": { "tolerations": [tolerations[0]] } }),
            needle: "\"marker\"",
        },
        Case {
            name: "node-selector",
            template: pod(&json!({ "nodeSelector": { "kubernetes.io/os": "linux" } })),
            removal: json!({ "spec": { "nodeSelector": null } }),
            needle: "\"nodeSelector\":{",
        },
        Case {
            name: "environment",
            template: pod(&json!({ "containers": [container(&variables)] })),
            removal: json!({ "spec": { "containers": [container(&variable)] } }),
            needle: "\"marker\"",
        },
        Case {
            name: "sidecar",
            template: pod(&json!({ "containers": [plain(), sidecar("marker")] })),
            removal: json!({ "spec": { "containers": [plain()] } }),
            needle: "\"marker\"",
        },
    ]
}

/// Whether the field is in the StatefulSet and in the pod of a generation. Asserts that the other fields are.
async fn shows(env: &TestEnv, case: &Case, generation: i64) -> [bool; 2] {
    let set = format!("{}-g{generation}", case.name);
    let texts = [
        text::<StatefulSet>(env, &set, &["/spec/template"]).await,
        text::<Pod>(
            env,
            &format!("{set}-0"),
            &["/metadata/labels", "/metadata/annotations", "/spec"],
        )
        .await,
    ];
    texts.map(|text| {
        assert!(text.contains("kept-marker"), "{}: {text}", case.name);
        text.contains(case.needle)
    })
}

/// A field is removed from the spec. It is neither in the StatefulSet of the next generation nor in its pods; the other
/// fields stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_removed_from_the_spec_is_not_in_the_next_generation() {
    let env = TestEnv::start().await;
    let cases = cases();
    for case in &cases {
        let mut with = engine(case.name);
        with.0.spec.template = serde_json::from_value(case.template.clone()).unwrap();
        env.create(&with.0).await;
    }
    for case in &cases {
        env.wait_for_generation(case.name, 0).await;
        assert_eq!(shows(&env, case, 0).await, [true; 2], "{}", case.name);
        let removal = json!({ "spec": { "template": case.removal } });
        env.edit_engine(case.name, removal).await;
    }
    for case in &cases {
        assert_eq!(env.wait_for_phase(case.name, Stable).await.active_generation, 1);
        assert_eq!(shows(&env, case, 1).await, [false; 2], "{}", case.name);
    }
}

fn sidecar(name: &str) -> Value {
    let mut sidecar = sparse_sidecar();
    name.clone_into(&mut sidecar.name);
    serde_json::to_value(sidecar).expect("a container")
}
