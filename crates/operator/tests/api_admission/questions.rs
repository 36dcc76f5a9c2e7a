//! What is asked at all, and how long an answer takes that needs nothing from the API server.

use serde_json::json;

use crate::fixture::{ENGINE, engine, new_replicas, wake};
use crate::objects::Kind;
use crate::stage::Stage;
use crate::support::Operator;

const ANSWERS: &str = "firebolt_operator_webhook_request_duration_seconds";
const ABOUT_ENGINES: &str = r#"kind="FireboltEngine",operation="update",outcome="accepted""#;

fn answers(operator: &Operator) -> f64 {
    let count = format!("{ANSWERS}_count{{{ABOUT_ENGINES}}}");
    operator.metric(&count).unwrap_or_default()
}

/// The bound, in seconds, below which half of the answers were given.
fn median(operator: &Operator) -> String {
    let (text, half) = (operator.metrics_answer(), answers(operator) / 2.0);
    let buckets = text.lines().filter_map(|line| {
        let bucket = line.strip_prefix(&format!("{ANSWERS}_bucket{{le=\""))?;
        let (bound, count) = bucket.split_once('"')?;
        let count: f64 = count.strip_prefix(&format!(",{ABOUT_ENGINES}}} "))?.parse().ok()?;
        Some((bound.to_owned(), count))
    });
    let mut enough = buckets.filter(|(_, count)| *count >= half);
    enough.next().expect("a bucket for every answer").0
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changes_of_the_specification_are_asked_about() {
    const CHANGES: i32 = 100;
    let stage = Stage::begin().await;
    stage.has_instance().await;
    stage.has(&[engine(ENGINE)]).await;
    let before = answers(stage.operator());
    stage.edit(Kind::Engine, ENGINE, &wake()).await.unwrap();
    let labels = json!({ "metadata": { "labels": { "team": "sales" }, "finalizers": ["example.com/hold"] } });
    stage.edit(Kind::Engine, ENGINE, &labels).await.unwrap();
    stage.scale(ENGINE, 7).await.unwrap();
    assert!(
        (answers(stage.operator()) - before).abs() < f64::EPSILON,
        "nobody was asked"
    );
    for replicas in 0..CHANGES {
        let scaled = new_replicas(100 + replicas);
        stage.rehearse_edit(Kind::Engine, ENGINE, &scaled).await.unwrap();
    }
    let asked = answers(stage.operator()) - before;
    assert!((asked - f64::from(CHANGES)).abs() < f64::EPSILON, "{asked} questions");
    println!("half of the answers took less than {} s", median(stage.operator()));
}
