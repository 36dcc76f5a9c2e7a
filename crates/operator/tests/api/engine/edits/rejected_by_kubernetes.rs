//! A value that the CRDs accept and the API server rejects in a StatefulSet.

use std::time::Instant;

use k8s_openapi::api::apps::v1::StatefulSet;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::wait::SOON;

use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::engine::phases::pods;
use crate::fault_proxy::{Outcome, ProxiedWrite};
use crate::fixtures::{IMAGE, engine};

/// After this many rejections in a row the operator retries with backoff.
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

/// An invalid value, then its correction. The old generation keeps serving with the same pods, the message quotes the
/// API server; the correction is rolled out soon after the edit, whatever the current backoff is.
#[rstest]
#[case::node_selector(selector("not valid!"), selector("linux"), "nodeSelector")]
#[case::environment(env("9=not valid"), env("VALID"), "env[")]
#[case::toleration(toleration("Sometimes"), toleration("Exists"), "tolerations[0].operator")]
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_value_is_reported_and_its_correction_is_rolled_out_at_once(
    #[case] impossible: Value,
    #[case] possible: Value,
    #[case] words: &str,
) {
    let proxied = ProxiedEnv::deployed().await;
    let env = &proxied.env;
    let serving = pods(env, 0).await;
    env.edit_engine(ENGINE, template(&impossible)).await;
    let reported = env.wait_for_reason(ENGINE, "WriteRefused").await;
    assert!(
        reported.status == "False" && reported.message.contains("a-g1") && reported.message.contains(words),
        "{reported:?}"
    );
    env.wait_for_event(ENGINE, "WriteRefused").await;
    let refused = |writes: &[ProxiedWrite]| {
        let refusals = writes.iter().filter(|write| write.outcome == Outcome::Answered(422));
        refusals.count() >= REFUSALS
    };
    proxied.proxy.wait_for_writes("it is rejected again and again", refused);
    assert_eq!((env.routed_to(ENGINE).await, pods(env, 0).await), (Some(0), serving));
    env.wait_for_reason(ENGINE, "WriteRefused").await;

    let corrected = Instant::now();
    env.edit_engine(ENGINE, template(&possible)).await;
    let created = async || env.get::<StatefulSet>("a-g1").await;
    env.eventually("the generation is created", created).await;
    let waited = corrected.elapsed();
    assert!(waited < SOON, "the correction was seen only after {waited:?}");
    env.wait_for_generation(ENGINE, 1).await;
    env.wait_for_reason(ENGINE, "EngineReady").await;
    proxied.invariants.hold().await;
}

/// An engine that is created with an invalid value. It does not serve, and the message says why; once corrected, it
/// does.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_created_with_an_invalid_value_starts_once_it_is_corrected() {
    let proxied = ProxiedEnv::start().await;
    let env = &proxied.env;
    let mut impossible = engine(ENGINE);
    let spec = impossible
        .0
        .spec
        .template
        .as_mut()
        .and_then(|template| template.spec.as_mut());
    spec.unwrap().node_selector = Some([("kubernetes.io/os".to_owned(), "not valid!".to_owned())].into());
    env.create(&impossible.0).await;
    let reported = env.wait_for_reason(ENGINE, "WriteRefused").await;
    assert!(reported.message.contains("nodeSelector"), "{reported:?}");
    env.edit_engine(ENGINE, template(&selector("linux"))).await;
    proxied.at_rest(0).await;
}
