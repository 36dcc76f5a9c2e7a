//! Durations and quantities: our parsers and the API server must agree on which texts are valid, and on their values.

use firebolt_api::Duration;
use firebolt_api::quantity::Amount;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::{Edit, Kube, at, engine, kube, unique};

/// Number of texts that are sent to the API server for each format.
const CASES: usize = 400;

/// The same texts in every run, so that a failure can be reproduced.
fn texts(strategy: impl Strategy<Value = String>) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    (0..CASES)
        .map(|_| strategy.new_tree(&mut runner).expect("generate a text").current())
        .collect()
}

#[tokio::test]
async fn the_schema_accepts_a_duration_exactly_if_we_can_parse_it() {
    let part = ("[0-9]{0,3}(\\.[0-9]{0,3})?", "(ns|us|µs|μs|ms|s|m|h|d|S|)").prop_map(|(n, unit)| n + unit.as_str());
    let usual = prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat());
    let long = "[0-9]{5,20}(ns|us|ms|s|m|h)";
    let signed = "[+-]{1,2}[1-9]s";
    let kube = kube().await;
    let mut accepted = 0;
    for text in texts(prop_oneof![6 => usual, 2 => long, 1 => signed, 1 => ".{0,8}"]) {
        let readable = text
            .parse::<Duration>()
            .is_ok_and(|d| d.get() >= std::time::Duration::from_secs(1));
        let verdict = kube
            .try_create(&engine().with("spec.drainCheckInterval", json!(text)))
            .await;
        assert_eq!(verdict.is_ok(), readable, "{text:?}: {verdict:?}");
        accepted += usize::from(readable);
    }
    assert_both_verdicts(accepted);
}

#[tokio::test]
async fn the_schema_accepts_a_quantity_exactly_if_we_can_parse_it_and_the_values_agree() {
    let number = "[+]?([0-9]{1,6}(\\.[0-9]{0,12})?|\\.[0-9]{1,12})";
    let suffix = "([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2}|)";
    let usual = (number, suffix).prop_map(|(number, suffix)| number + suffix.as_str());
    let long = "[0-9]{15,45}(\\.[0-9]{1,15})?([KMGTPE]i|[numkMGTPE]|)";
    let wrong = "[+-]{0,2}[0-9.]{0,4}(GB|K|ki|e1.5|e| Gi|Zi|)";
    let kube = kube().await;
    let mut accepted = 0;
    for text in texts(prop_oneof![6 => usual, 2 => long, 1 => wrong, 1 => ".{0,8}"]) {
        let ours = text.parse::<Amount>();
        let verdict = kube
            .try_create(&engine().with("spec.storage.emptyDir.sizeLimit", json!(text)))
            .await;
        assert_eq!(verdict.is_ok(), ours.is_ok(), "{text:?}: {verdict:?}");
        if let Ok(ours) = ours {
            let canonical = canonical(&kube, &text).await;
            assert_eq!(
                canonical.parse::<Amount>().as_ref(),
                Ok(&ours),
                "{text:?} is {canonical} to the API server"
            );
            accepted += 1;
        }
    }
    assert_both_verdicts(accepted);
}

/// A property that only ever saw accepted or only rejected texts would prove nothing.
fn assert_both_verdicts(accepted: usize) {
    assert!(
        accepted > CASES / 10 && accepted < CASES * 9 / 10,
        "{accepted} of {CASES} were accepted"
    );
}

/// How the API server itself serializes a quantity, in a field of a core type.
async fn canonical(kube: &Kube, text: &str) -> String {
    let template: Value = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": unique("quantity") },
        "template": { "spec": {
            "containers": [{ "name": "c", "image": "c" }],
            "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": text } }],
        } },
    });
    let stored = kube
        .try_create(&template)
        .await
        .unwrap_or_else(|refusal| panic!("{text:?} is refused: {refusal}"));
    let limit = at(&stored["template"]["spec"]["volumes"][0], "emptyDir.sizeLimit").expect("keep the limit");
    limit.as_str().expect("a text").to_owned()
}
