//! Manual changes of the CA bundle and of the Secret with the certificate are repaired.

use kube::api::DeleteParams;
use rstest::rstest;

use super::certificates;
use crate::admission::client::eventually;
use crate::admission::manifests::{ENGINE, engine};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::traffic::Traffic;

/// Requests per second while something is mended.
const RATE: u32 = 50;

#[rstest]
#[case::emptied("")]
#[case::garbage("garbage")]
#[tokio::test(flavor = "multi_thread")]
async fn a_ca_bundle_that_is_edited_by_hand_is_restored(#[case] bundle: &str) {
    let env = AdmissionEnv::start().await;
    let before = env.bundle().await;
    assert!(!before.is_empty());
    env.set_trust(bundle).await;
    let healed = async || (env.bundle().await == before).then_some(());
    eventually("the webhooks trust whom they trusted", healed).await;
    env.wait_for_admission().await;
    env.has(&[engine(ENGINE)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_is_recreated_without_a_failed_admission() {
    // A new certificate is not served before its authority is known everywhere, which takes longer the longer it lasts.
    let env = AdmissionEnv::start_with(&["--webhook-cert-validity=3m"]).await;
    env.has(&[engine(ENGINE)]).await;
    let traffic = Traffic::start(&env, RATE).await;
    traffic.wait_for(RATE).await;
    let (served, name) = (certificates(env.operator()), &env.namespace);
    let before = env.secrets().get(name).await.unwrap();
    env.secrets().delete(name, &DeleteParams::default()).await.unwrap();
    let replaced = async || {
        let secret = env.secrets().get_opt(name).await.unwrap()?;
        let is_new = secret.metadata.uid != before.metadata.uid && secret.data != before.data;
        (is_new && certificates(env.operator()) > served).then_some(())
    };
    eventually("another certificate is served", replaced).await;
    traffic.wait_for(RATE).await;
    let (accepted, rate) = traffic.end().await;
    println!("{accepted} requests at {rate:.0} per second");
}
