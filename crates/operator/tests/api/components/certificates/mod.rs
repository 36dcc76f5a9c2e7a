//! The certificates of the webhooks: created, rotated, lost and recovered, under a client that connects all the time and
//! trusts what the webhooks trust.

mod probe;
mod testenv;

use std::collections::BTreeSet;
use std::time::Duration;

use localkube::Cluster;
use rstest::rstest;

use self::testenv::CertificateEnv;
use crate::components::operator_client;
use crate::support::CONTROL_PLANES;

/// So long that nothing is rotated while a test runs.
const LONG: Duration = Duration::from_hours(24);
/// So short that certificates are rotated while a test runs. A third of it is left to replace one. Of that, the propagation
/// delay takes a second, and the rest is for a busy machine.
const SHORT: Duration = Duration::from_secs(24);

#[tokio::test(flavor = "multi_thread")]
async fn the_first_leader_issues_a_certificate_that_every_replica_serves() {
    let mut env = CertificateEnv::new(LONG).await;
    env.configure().await;
    let [one, other] = [env.serve().await, env.serve().await];
    assert!(!env.served(one).is_ready());
    env.lead();
    env.trust_is_current().await;
    let (first, second) = (env.certificate_of(one).await, env.certificate_of(other).await);
    assert_eq!(first, second);
    assert!(env.served(one).expires().is_some());
    let secret = env.secret().await.unwrap();
    let keys: BTreeSet<String> = secret.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"].map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_fails_during_rotations() {
    let _quiet = CONTROL_PLANES.read().await;
    let mut env = CertificateEnv::new(SHORT).await;
    env.configure().await;
    let servers = [env.serve().await, env.serve().await];
    env.lead();
    env.trust_is_current().await;
    let probe = env.probe(&servers);
    probe.wait_for_certificates(3).await;
    // A new leader goes on where the old one stopped.
    env.lead();
    probe.wait_for_certificates(4).await;
    probe.assert_trusted();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_is_recreated_while_both_authorities_are_trusted() {
    let mut env = CertificateEnv::new(LONG).await;
    env.configure().await;
    let server = env.serve().await;
    env.lead();
    env.trust_is_current().await;
    let probe = env.probe(&[server]);
    probe.wait_for_certificates(1).await;
    env.delete_secret().await;
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
    env.trust_is_current().await;
}

#[rstest]
#[case::everything(&["tls.crt", "tls.key", "ca.crt"])]
#[case::the_pair(&["tls.crt"])]
#[case::the_key(&["tls.key"])]
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_secret_is_recreated_while_both_authorities_are_trusted(#[case] keys: &[&str]) {
    let mut env = CertificateEnv::new(LONG).await;
    env.configure().await;
    let server = env.serve().await;
    env.lead();
    env.trust_is_current().await;
    let probe = env.probe(&[server]);
    probe.wait_for_certificates(1).await;
    env.damage_secret(keys).await;
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
    env.trust_is_current().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_cas_in_the_secret_are_restored_from_the_webhook_configurations() {
    let mut env = CertificateEnv::new(LONG).await;
    env.configure().await;
    let server = env.serve().await;
    env.lead();
    env.trust_is_current().await;
    let (before, certificate) = (env.authorities().await, env.certificate_of(server).await);
    env.damage_secret(&["ca.crt"]).await;
    env.wait_for_authorities(&before).await;
    assert_eq!(
        env.certificate_of(server).await,
        certificate,
        "there was no need for another"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_bundle_that_is_edited_by_hand_is_restored_and_nothing_else_changes() {
    let mut env = CertificateEnv::new(LONG).await;
    env.configure().await;
    env.lead();
    env.trust_is_current().await;
    for bundle in ["", "garbage"] {
        env.edit_trust(bundle).await;
        env.trust_is_current().await;
    }
    assert_eq!(env.webhooks_without_trust().await, CertificateEnv::webhooks());
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_that_come_later_are_picked_up() {
    let mut env = CertificateEnv::new(LONG).await;
    let server = env.serve().await;
    env.lead();
    let certificate = env.certificate_of(server).await;
    env.configure().await;
    env.trust_is_current().await;
    assert_eq!(env.certificate_of(server).await, certificate);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_permissions_are_enough() {
    let _quiet = CONTROL_PLANES.read().await;
    let client = operator_client(&Cluster::attach()).await;
    let mut env = CertificateEnv::shipped(SHORT, client).await;
    env.configure().await;
    let server = env.serve().await;
    env.lead();
    env.trust_is_current().await;
    let probe = env.probe(&[server]);
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
}
