//! A database of somebody else: its Secret is awaited, checked, followed, and never touched.

use std::time::{Duration, Instant};

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::chronicle::Chronicle;
use super::fixture::{CREDENTIALS, MAIN, credentials, external, instance, secret};
use super::inventory::at;
use super::stage::{Stage, condition, status};

/// Much sooner than anything that is only looked at from time to time.
const PROMPTLY: Duration = Duration::from_secs(3);
const HASH: &str = "/spec/template/metadata/annotations/firebolt.io~1credentials-hash";
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
const REASON: &str = "PostgresSecretPreflightFailed";

fn with_external() -> FireboltInstance {
    instance(MAIN, &json!({ "postgres": external() }), &json!({ "replicas": 1 }))
}

impl Stage {
    /// Waits until the instance says nothing more against its Secret, which has to happen promptly.
    async fn goes_on_promptly(&self) {
        let start = Instant::now();
        let is_past = |it: &FireboltInstance| condition(it, InstanceCondition::MetadataReady).reason != REASON;
        self.wait_for(MAIN, "has what it needs", is_past).await;
        assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());
        self.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }

    async fn metadata_pod(&self) -> Option<String> {
        let pods = self.list::<Pod>().await;
        let mut pods = pods
            .iter()
            .filter(|pod| pod.labels()["firebolt.io/component"] == "metadata");
        pods.next().and_then(ResourceExt::uid)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_missing_is_named_and_awaited() {
    let stage = Stage::begin().await;
    stage.create(&with_external()).await;
    let said = stage
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, REASON)
        .await;
    assert!(
        said.message.contains(CREDENTIALS) && said.message.contains("does not exist"),
        "{said:?}"
    );
    let waiting = stage.the::<FireboltInstance>(MAIN).await;
    assert_eq!(status(&waiting).phase, Some(InstancePhase::Provisioning));
    assert_eq!(condition(&waiting, InstanceCondition::Ready).reason, REASON);
    assert_eq!(stage.children(MAIN).await.len(), 0);
    stage.wait_for_told(MAIN, REASON).await;
    stage.create(&credentials("open sesame")).await;
    stage.goes_on_promptly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_lacks_something_is_named_with_what_it_lacks() {
    let stage = Stage::begin().await;
    let data = json!({ "password": "p", "user": "u" });
    stage.create(&secret(CREDENTIALS, &data)).await;
    stage.create(&with_external()).await;
    for (fault, next) in [
        ("it has no key username", json!({ "username": "u", "password": "" })),
        (
            "its key password is empty",
            json!({ "username": "u", "password": null }),
        ),
        ("it has no key password", json!({ "username": "u", "password": "p" })),
    ] {
        let told = stage.wait_for_message(MAIN, fault).await;
        let said = condition(&told, InstanceCondition::MetadataReady);
        assert_eq!(said.reason, REASON);
        assert!(said.message.contains(CREDENTIALS), "{said:?}");
        let encoded = next.as_object().unwrap().iter().map(|(key, value)| {
            let value = value.as_str().map(|value| ByteString(value.as_bytes().to_vec()));
            (key.clone(), json!(value))
        });
        let data: serde_json::Map<String, Value> = encoded.collect();
        stage.edit::<Secret>(CREDENTIALS, json!({ "data": data })).await;
    }
    stage.goes_on_promptly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_change_of_the_credentials_restarts_the_metadata_service() {
    let stage = Stage::begin().await;
    stage.create(&credentials("first")).await;
    stage.deploy(&with_external()).await;
    let before = stage.known("Deployment", "main-metadata").await;
    let (hash, pod) = (at(&before, HASH), stage.metadata_pod().await);
    assert!(hash.is_string() && pod.is_some());

    let chronicle = Chronicle::of(&stage, MAIN).await;
    let marks = stage.mark();
    stage
        .edit::<Secret>(
            CREDENTIALS,
            json!({ "metadata": { "annotations": { "example.com/note": "x" } } }),
        )
        .await;
    stage
        .edit::<Secret>(CREDENTIALS, json!({ "stringData": { "another-key": "x" } }))
        .await;
    stage
        .edit::<Secret>(CREDENTIALS, json!({ "metadata": { "labels": { "team": "x" } } }))
        .await;
    // What the operator does after the change of the password, it does after those before it too.
    stage
        .edit::<Secret>(CREDENTIALS, json!({ "stringData": { "password": "second" } }))
        .await;
    let rolled = async || {
        let deployment = stage.known("Deployment", "main-metadata").await;
        (at(&deployment, REVISION) == "2").then(|| at(&deployment, HASH))
    };
    let second = stage.eventually("the metadata service is rolled", rolled).await;
    assert_ne!(second, hash);
    let replaced = async || stage.metadata_pod().await.filter(|new| Some(new) != pod.as_ref());
    stage.eventually("there is another pod", replaced).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    stage.wait_until_nothing_is_planned().await;
    let written = marks.writes(&stage.namespace);
    let rolls = written
        .iter()
        .filter(|write| write.resource == "deployments" && write.code == 200);
    // The first write to what was only created so far hands over who set its fields.
    assert!(rolls.count() <= 2, "{written:?}");
    assert_eq!(at(&stage.known("Deployment", "main-metadata").await, REVISION), "2");
    assert!(chronicle.phases(&stage).await.starts_with(&[InstancePhase::Ready]));

    // What was rolled for the sake of one password goes back to the same state for the sake of the other.
    stage
        .edit::<Secret>(CREDENTIALS, json!({ "stringData": { "password": "first" } }))
        .await;
    let back = async || (at(&stage.known("Deployment", "main-metadata").await, HASH) == hash).then_some(());
    stage.eventually("the first hash is back", back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_lost_is_told_and_nothing_is_taken_down_for_it() {
    let stage = Stage::begin().await;
    stage.create(&credentials("open sesame")).await;
    stage.deploy(&with_external()).await;
    let pod = stage.metadata_pod().await;
    stage.delete::<Secret>(CREDENTIALS).await;
    let said = stage
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, REASON)
        .await;
    assert!(said.message.contains(CREDENTIALS), "{said:?}");
    let degraded = stage.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    assert_eq!(status(&degraded).metadata_endpoint, "");
    assert!(status(&degraded).gateway_ready);
    stage.create(&credentials("open sesame")).await;
    stage.goes_on_promptly().await;
    assert_eq!(stage.metadata_pod().await, pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_secret_is_followed_from_the_moment_it_is_named() {
    let stage = Stage::begin().await;
    stage.create(&credentials("first")).await;
    stage
        .create(&secret("another", &json!({ "username": "u", "password": "second" })))
        .await;
    stage.deploy(&with_external()).await;
    let first = at(&stage.known("Deployment", "main-metadata").await, HASH);
    let chronicle = Chronicle::of(&stage, MAIN).await;
    let postgres = json!({ "credentialsSecretRef": { "name": "another" } });
    stage
        .edit_instance(MAIN, json!({ "spec": { "metadata": { "postgres": postgres } } }))
        .await;
    let mounted = async || {
        let deployment = stage.known("Deployment", "main-metadata").await;
        let volumes = at(&deployment, "/spec/template/spec/volumes").to_string();
        (volumes.contains("another") && at(&deployment, HASH) != first).then_some(())
    };
    stage.eventually("the other Secret is mounted", mounted).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let states = chronicle.states(&stage).await;
    let looked_for = |it: &FireboltInstance| condition(it, InstanceCondition::Ready).message.contains("looked for");
    assert!(
        !states.iter().any(looked_for),
        "what nobody has looked for yet is not told as trouble"
    );
    // Its changes count from now on, and those of the first one no longer do.
    stage.delete::<Secret>(CREDENTIALS).await;
    let second = at(&stage.known("Deployment", "main-metadata").await, HASH);
    stage
        .edit::<Secret>("another", json!({ "stringData": { "password": "third" } }))
        .await;
    let rolled = async || (at(&stage.known("Deployment", "main-metadata").await, HASH) != second).then_some(());
    stage.eventually("the metadata service is rolled again", rolled).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}
