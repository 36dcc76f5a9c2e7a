//! B3: a value that the definitions take and the API server refuses in a StatefulSet.

use std::time::Instant;

use k8s_openapi::api::apps::v1::StatefulSet;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::stage::{ENGINE, Stage};
use crate::engine::moments::pods;
use crate::fixture::{IMAGE, engine};
use crate::proxy::{Outcome, Write};
use crate::support::SOON;

/// So many refusals in a row, and the operator has begun to pause between attempts.
const REFUSALS: usize = 4;

fn selector(value: &str) -> Value {
    json!({ "nodeSelector": { "kubernetes.io/os": value } })
}

fn env(name: &str) -> Value {
    json!({ "containers": [{ "name": "engine", "image": IMAGE, "env": [{ "name": name, "value": "1" }] }] })
}

fn toleration(operator: &str) -> Value {
    json!({ "tolerations": [{ "key": "dedicated", "operator": operator }] })
}

fn template(spec: &Value) -> Value {
    json!({ "spec": { "template": { "spec": spec } } })
}

/// Fault: an impossible value and back. The old generation serves on with the same pods, people read what the API server
/// says about it; invariant 10: the correction is rolled out soon after it is made, whatever the pause had come to.
#[rstest]
#[case::node_selector(selector("not valid!"), selector("linux"), "nodeSelector")]
#[case::environment(env("9=not valid"), env("VALID"), "env[")]
#[case::toleration(toleration("Sometimes"), toleration("Exists"), "tolerations[0].operator")]
#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_value_is_reported_and_its_correction_rolled_out_at_once(
    #[case] impossible: Value,
    #[case] possible: Value,
    #[case] words: &str,
) {
    let stage = Stage::deployed().await;
    let scene = &stage.scene;
    let serving = pods(scene, 0).await;
    scene.edit_engine(ENGINE, template(&impossible)).await;
    let said = scene.wait_for_reason(ENGINE, "WriteRefused").await;
    assert!(
        said.status == "False" && said.message.contains("a-g1") && said.message.contains(words),
        "{said:?}"
    );
    scene.wait_for_event(ENGINE, "WriteRefused").await;
    let refused = |writes: &[Write]| {
        let refusals = writes.iter().filter(|write| write.outcome == Outcome::Answered(422));
        refusals.count() >= REFUSALS
    };
    stage.proxy.wait_for_writes("it is refused again and again", refused);
    assert_eq!(
        (scene.routed_to(ENGINE).await, pods(scene, 0).await),
        (Some(0), serving)
    );
    scene.wait_for_reason(ENGINE, "WriteRefused").await;

    let corrected = Instant::now();
    scene.edit_engine(ENGINE, template(&possible)).await;
    let created = async || scene.get::<StatefulSet>("a-g1").await;
    scene.eventually("the generation is created", created).await;
    let waited = corrected.elapsed();
    assert!(waited < SOON, "the correction was seen only after {waited:?}");
    scene.wait_for_generation(ENGINE, 1).await;
    scene.wait_for_reason(ENGINE, "EngineReady").await;
    stage.invariants.hold().await;
}

/// Fault: an impossible value from the beginning. Nothing serves, and people read why; the correction makes the engine.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_was_impossible_from_the_beginning_comes_up_once_it_is_corrected() {
    let stage = Stage::begin().await;
    let scene = &stage.scene;
    let mut impossible = engine(ENGINE);
    let spec = impossible
        .0
        .spec
        .template
        .as_mut()
        .and_then(|template| template.spec.as_mut());
    spec.unwrap().node_selector = Some([("kubernetes.io/os".to_owned(), "not valid!".to_owned())].into());
    scene.create(&impossible.0).await;
    let said = scene.wait_for_reason(ENGINE, "WriteRefused").await;
    assert!(said.message.contains("nodeSelector"), "{said:?}");
    scene.edit_engine(ENGINE, template(&selector("linux"))).await;
    stage.at_rest(0).await;
}
