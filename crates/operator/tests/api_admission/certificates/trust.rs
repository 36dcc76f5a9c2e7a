//! What people break by hand is mended: whom the API server trusts, and the Secret with the certificate.

use kube::api::DeleteParams;
use rstest::rstest;

use super::certificates;
use crate::fixture::{ENGINE, engine};
use crate::objects::eventually;
use crate::stage::Stage;
use crate::traffic::Traffic;

/// Requests per second while something is mended.
const RATE: u32 = 50;

#[rstest]
#[case::emptied("")]
#[case::garbage("garbage")]
#[tokio::test(flavor = "multi_thread")]
async fn trust_that_is_broken_by_hand_heals(#[case] bundle: &str) {
    let stage = Stage::begin().await;
    let before = stage.bundle().await;
    assert!(!before.is_empty());
    stage.set_trust(bundle).await;
    let healed = async || (stage.bundle().await == before).then_some(());
    eventually("the webhooks trust whom they trusted", healed).await;
    stage.wait_for_admission().await;
    stage.has(&[engine(ENGINE)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_comes_back_without_a_failed_admission() {
    // A new certificate is not served before its authority is known everywhere, which takes longer the longer it lasts.
    let stage = Stage::begin_with(&["--webhook-cert-validity=3m"]).await;
    stage.has(&[engine(ENGINE)]).await;
    let traffic = Traffic::start(&stage, RATE).await;
    traffic.wait_for(RATE).await;
    let (served, name) = (certificates(stage.operator()), &stage.namespace);
    let before = stage.secrets().get(name).await.unwrap();
    stage.secrets().delete(name, &DeleteParams::default()).await.unwrap();
    let replaced = async || {
        let secret = stage.secrets().get_opt(name).await.unwrap()?;
        let is_new = secret.metadata.uid != before.metadata.uid && secret.data != before.data;
        (is_new && certificates(stage.operator()) > served).then_some(())
    };
    eventually("another certificate is served", replaced).await;
    traffic.wait_for(RATE).await;
    let (accepted, rate) = traffic.end().await;
    println!("{accepted} requests at {rate:.0} per second");
}
