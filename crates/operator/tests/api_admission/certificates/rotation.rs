//! Certificates are rotated under load.

use super::certificates;
use crate::fixture::{ENGINE, engine};
use crate::objects::eventually;
use crate::stage::Stage;
use crate::support::tls::{connect, trusted};
use crate::traffic::Traffic;

const ROTATIONS: usize = 10;
/// Requests per second.
const RATE: u32 = 200;
/// Answers to questions about engines.
const ANSWERED: (&str, [&str; 2]) = (
    "firebolt_operator_webhook_request_duration_seconds_count",
    [r#"kind="FireboltEngine""#, r#"outcome="accepted""#],
);

#[tokio::test(flavor = "multi_thread")]
async fn ten_rotations_under_load_go_by_without_a_failed_admission() {
    let stage = Stage::begin_with(&["--webhook-cert-validity=9s"]).await;
    stage.has_instance().await;
    stage.has(&[engine(ENGINE)]).await;
    let answered = || stage.operator().metric_over(ANSWERED.0, &ANSWERED.1);
    let (before, asked_before) = (certificates(stage.operator()), answered());
    let traffic = Traffic::start(&stage, RATE).await;
    let rotated = async || (certificates(stage.operator()) >= before + ROTATIONS).then_some(());
    eventually("certificates are rotated", rotated).await;
    // The API server connects anew whenever it is to trust somebody else. What is served last, it would meet with the next
    // rotation; we look at it ourselves.
    let address = stage.replicas[0].address.parse().unwrap();
    let trusted_now = async || connect(&trusted(&stage.bundle().await), address).await.ok();
    eventually("the last certificate is trusted", trusted_now).await;
    traffic.wait_for(RATE).await;
    let rotations = certificates(stage.operator()) - before;
    let (accepted, rate) = traffic.end().await;
    println!("{accepted} requests at {rate:.0} per second, {rotations} rotations");
    assert!(
        answered() - asked_before >= f64::from(accepted),
        "each of them was asked about"
    );
}
