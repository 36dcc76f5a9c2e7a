//! Values that are empty and that Kubernetes does not treat as absent.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::fixtures::engine;
use crate::instance::volumes::Volumes;
use crate::kubelet::EMPTY_LABEL;
use crate::testenv::TestEnv;

/// An empty value that is added to a running engine, and removed again.
struct Case {
    /// The name of the engine.
    name: &'static str,
    storage: Value,
    edit: Value,
    removal: Value,
    /// Where it is in the objects of a generation.
    places: &'static [&'static str],
    value: Value,
}

fn of_template(name: &'static str, places: &'static [&'static str], template: impl Fn(Value) -> Value) -> Case {
    let edit = |value: Value| json!({ "spec": { "template": template(json!({ EMPTY_LABEL: value })) } });
    Case {
        name,
        storage: json!({}),
        edit: edit(json!("")),
        removal: edit(json!(null)),
        places,
        value: json!(""),
    }
}

fn cases() -> [Case; 5] {
    let claim =
        |class: Value| json!({ "spec": { "storage": { "persistentVolumeClaim": { "storageClassName": class } } } });
    let config = |value: Value| json!({ "spec": { "customEngineConfig": { "x": value } } });
    [
        of_template(
            "node-selector",
            &[
                "/set/spec/template/spec/nodeSelector/tests.firebolt.io~1empty",
                "/pod/spec/nodeSelector/tests.firebolt.io~1empty",
            ],
            |entries| json!({ "spec": { "nodeSelector": entries } }),
        ),
        of_template(
            "label",
            &[
                "/set/spec/template/metadata/labels/tests.firebolt.io~1empty",
                "/pod/metadata/labels/tests.firebolt.io~1empty",
            ],
            |entries| json!({ "metadata": { "labels": entries } }),
        ),
        of_template(
            "annotation",
            &[
                "/set/spec/template/metadata/annotations/tests.firebolt.io~1empty",
                "/pod/metadata/annotations/tests.firebolt.io~1empty",
            ],
            |entries| json!({ "metadata": { "annotations": entries } }),
        ),
        Case {
            name: "claim",
            storage: json!({ "persistentVolumeClaim": {} }),
            edit: claim(json!("")),
            removal: claim(json!(null)),
            places: &[
                "/set/spec/volumeClaimTemplates/0/spec/storageClassName",
                "/claim/spec/storageClassName",
            ],
            value: json!(""),
        },
        Case {
            name: "config",
            storage: json!({}),
            edit: config(json!([])),
            removal: config(json!(null)),
            places: &["/config/x"],
            value: json!([]),
        },
    ]
}

/// The value at each of its places in the objects of a generation.
async fn found(env: &TestEnv, case: &Case, generation: i64) -> Vec<Option<Value>> {
    let set = format!("{}-g{generation}", case.name);
    let config = env.the::<ConfigMap>(&format!("{set}-config")).await;
    let config: Value = serde_saphyr::from_str(&config.data.unwrap()["config.yaml"]).unwrap();
    let objects = json!({
        "set": env.the::<StatefulSet>(&set).await,
        "pod": env.the::<Pod>(&format!("{set}-0")).await,
        "claim": env.get::<PersistentVolumeClaim>(&format!("data-{set}-0")).await,
        "config": config,
    });
    let places = case.places.iter();
    places.map(|place| objects.pointer(place).cloned()).collect()
}

/// Each edit leads to a new generation with exactly that value, and so does its removal.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_value_reaches_the_next_generation_and_leaves_with_the_one_after_it() {
    let env = TestEnv::start().await;
    let _volumes = Volumes::provide(&env).await;
    let cases = cases();
    for case in &cases {
        let mut bare = engine(case.name);
        bare.0.spec.storage = serde_json::from_value(case.storage.clone()).unwrap();
        env.create(&bare.0).await;
    }
    for generation in 0..3 {
        for case in &cases {
            env.wait_for_generation(case.name, generation).await;
            let expected = (generation == 1).then(|| case.value.clone());
            let expected = vec![expected; case.places.len()];
            assert_eq!(found(&env, case, generation).await, expected, "{}", case.name);
            let next = if generation == 0 { &case.edit } else { &case.removal };
            env.edit_engine(case.name, next.clone()).await;
        }
    }
}
