//! Which requests the webhook is called for, and how long an answer takes that needs no request of its own.

use serde_json::json;

use crate::admission::client::FireboltKind;
use crate::admission::manifests::{ENGINE, engine, new_replicas, wake};
use crate::admission::testenv::AdmissionEnv;
use crate::support::Operator;

const RESPONSES: &str =
    r#"firebolt_operator_webhook_responses_total{kind="FireboltEngine",operation="update",outcome="allowed"}"#;
const LATENCY: &str = "controller_runtime_webhook_latency_seconds";
const WEBHOOK: &str = r#"webhook="/validate-compute-firebolt-io-v1alpha1-fireboltengine""#;

fn answers(operator: &Operator) -> f64 {
    operator.metric(RESPONSES).unwrap_or_default()
}

/// The bound, in seconds, below which half of the answers were given.
fn median(operator: &Operator) -> String {
    let count = operator.metric(&format!("{LATENCY}_count{{{WEBHOOK}}}"));
    let (text, half) = (operator.metrics_answer(), count.unwrap_or_default() / 2.0);
    let buckets = text.lines().filter_map(|line| {
        let bucket = line.strip_prefix(&format!("{LATENCY}_bucket{{le=\""))?;
        let (bound, count) = bucket.split_once('"')?;
        let count: f64 = count.strip_prefix(&format!(",{WEBHOOK}}} "))?.parse().ok()?;
        Some((bound.to_owned(), count))
    });
    let mut enough = buckets.filter(|(_, count)| *count >= half);
    enough.next().expect("a bucket for every answer").0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_is_called_only_for_spec_changes() {
    const CHANGES: i32 = 100;
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    env.has(&[engine(ENGINE)]).await;
    let before = answers(env.operator());
    env.edit(FireboltKind::Engine, ENGINE, &wake()).await.unwrap();
    let labels = json!({ "metadata": { "labels": { "team": "sales" }, "finalizers": ["example.com/hold"] } });
    env.edit(FireboltKind::Engine, ENGINE, &labels).await.unwrap();
    env.scale(ENGINE, 7).await.unwrap();
    assert!(
        (answers(env.operator()) - before).abs() < f64::EPSILON,
        "the webhook was not called"
    );
    for replicas in 0..CHANGES {
        let scaled = new_replicas(100 + replicas);
        env.dry_run_edit(FireboltKind::Engine, ENGINE, &scaled).await.unwrap();
    }
    let asked = answers(env.operator()) - before;
    assert!((asked - f64::from(CHANGES)).abs() < f64::EPSILON, "{asked} questions");
    println!("half of the answers took less than {} s", median(env.operator()));
}
