//! The certificates of the webhooks: made, rotated, lost and found again, while a client connects all the time that
//! trusts what the webhooks trust.

mod probe;
mod scene;

use std::collections::BTreeSet;
use std::time::Duration;

use localkube::Cluster;
use rstest::rstest;

use self::scene::Scene;
use crate::operator_client;

/// So long that nothing is rotated while a test runs.
const LONG: Duration = Duration::from_hours(24);

#[tokio::test(flavor = "multi_thread")]
async fn the_first_leader_makes_a_certificate_that_every_replica_serves() {
    let mut scene = Scene::new(LONG).await;
    scene.configure().await;
    let [one, other] = [scene.serve().await, scene.serve().await];
    assert!(!scene.served(one).is_ready());
    scene.lead();
    scene.trust_is_current().await;
    let (first, second) = (scene.certificate_of(one).await, scene.certificate_of(other).await);
    assert_eq!(first, second);
    assert!(scene.served(one).expires().is_some());
    let secret = scene.secret().await.unwrap();
    let keys: BTreeSet<String> = secret.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"].map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_go_by_without_a_failed_connection() {
    let mut scene = Scene::new(Duration::from_secs(15)).await;
    scene.configure().await;
    let servers = [scene.serve().await, scene.serve().await];
    scene.lead();
    scene.trust_is_current().await;
    let probe = scene.probe(&servers);
    probe.wait_for_certificates(3).await;
    // A new leader goes on where the old one stopped.
    scene.lead();
    probe.wait_for_certificates(4).await;
    probe.assert_trusted();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_is_made_anew_while_everybody_is_trusted() {
    let mut scene = Scene::new(LONG).await;
    scene.configure().await;
    let server = scene.serve().await;
    scene.lead();
    scene.trust_is_current().await;
    let probe = scene.probe(&[server]);
    probe.wait_for_certificates(1).await;
    scene.delete_secret().await;
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
    scene.trust_is_current().await;
}

#[rstest]
#[case::everything(&["tls.crt", "tls.key", "ca.crt"])]
#[case::the_pair(&["tls.crt"])]
#[case::the_key(&["tls.key"])]
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_damaged_is_made_anew_while_everybody_is_trusted(#[case] keys: &[&str]) {
    let mut scene = Scene::new(LONG).await;
    scene.configure().await;
    let server = scene.serve().await;
    scene.lead();
    scene.trust_is_current().await;
    let probe = scene.probe(&[server]);
    probe.wait_for_certificates(1).await;
    scene.damage_secret(keys).await;
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
    scene.trust_is_current().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_that_are_damaged_in_the_secret_come_back_from_the_webhooks() {
    let mut scene = Scene::new(LONG).await;
    scene.configure().await;
    let server = scene.serve().await;
    scene.lead();
    scene.trust_is_current().await;
    let (before, certificate) = (scene.authorities().await, scene.certificate_of(server).await);
    scene.damage_secret(&["ca.crt"]).await;
    scene.wait_for_authorities(&before).await;
    assert_eq!(
        scene.certificate_of(server).await,
        certificate,
        "there was no need for another"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_that_is_edited_by_hand_is_restored_and_nothing_else_is_touched() {
    let mut scene = Scene::new(LONG).await;
    scene.configure().await;
    scene.lead();
    scene.trust_is_current().await;
    for bundle in ["", "garbage"] {
        scene.edit_trust(bundle).await;
        scene.trust_is_current().await;
    }
    assert_eq!(scene.webhooks_without_trust().await, Scene::webhooks());
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_that_come_later_are_picked_up() {
    let mut scene = Scene::new(LONG).await;
    let server = scene.serve().await;
    scene.lead();
    let certificate = scene.certificate_of(server).await;
    scene.configure().await;
    scene.trust_is_current().await;
    assert_eq!(scene.certificate_of(server).await, certificate);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_permissions_are_enough() {
    let client = operator_client(&Cluster::attach()).await;
    let mut scene = Scene::shipped(Duration::from_secs(15), client).await;
    scene.configure().await;
    let server = scene.serve().await;
    scene.lead();
    scene.trust_is_current().await;
    let probe = scene.probe(&[server]);
    probe.wait_for_certificates(2).await;
    probe.assert_trusted();
}
