//! Certificates are rotated under load.

use super::certificates;
use crate::admission::client::eventually;
use crate::admission::manifests::{ENGINE, engine};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::traffic::Traffic;
use crate::support::CONTROL_PLANES;
use crate::support::tls::{connect, trusted};

/// A third of it is left to replace a certificate. Of that, the propagation delay takes a second, and the rest is for a busy
/// machine.
const VALIDITY: &str = "--webhook-cert-validity=18s";
/// There is one every 12 seconds or a little later, so these fit into the timeout of a wait.
const ROTATIONS: usize = 6;
/// Requests per second.
const RATE: u32 = 200;
/// Answers to questions about engines.
const ANSWERED: (&str, [&str; 2]) = (
    "firebolt_operator_webhook_responses_total",
    [r#"kind="FireboltEngine""#, r#"outcome="allowed""#],
);

#[tokio::test(flavor = "multi_thread")]
async fn no_admission_fails_during_rotations_under_load() {
    let _quiet = CONTROL_PLANES.read().await;
    let env = AdmissionEnv::start_with(&[VALIDITY]).await;
    env.has_instance().await;
    env.has(&[engine(ENGINE)]).await;
    let answered = || env.operator().metric_over(ANSWERED.0, &ANSWERED.1);
    let (before, asked_before) = (certificates(env.operator()), answered());
    let traffic = Traffic::start(&env, RATE).await;
    let rotated = async || (certificates(env.operator()) >= before + ROTATIONS).then_some(());
    eventually("certificates are rotated", rotated).await;
    // The API server connects anew whenever it is to trust another authority. What is served last, it would meet with the next
    // rotation; we check it ourselves.
    let address = env.replicas[0].address.parse().unwrap();
    let trusted_now = async || connect(&trusted(&env.bundle().await), address).await.ok();
    eventually("the last certificate is trusted", trusted_now).await;
    traffic.wait_for(RATE).await;
    let rotations = certificates(env.operator()) - before;
    let (accepted, rate) = traffic.end().await;
    println!("{accepted} requests at {rate:.0} per second, {rotations} rotations");
    assert!(
        answered() - asked_before >= f64::from(accepted),
        "each of them was asked about"
    );
}
