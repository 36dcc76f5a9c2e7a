//! An external PostgreSQL: the operator waits for its Secret, which is checked, watched, and never changed.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::instance::children::at;
use crate::instance::fixtures::{CREDENTIALS, MAIN, credentials, external, instance, secret};
use crate::instance::status_history::StatusHistory;
use crate::instance::testenv::{InstanceEnv, condition, status};

const HASH: &str = "/spec/template/metadata/annotations/firebolt.io~1credentials-hash";
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
const REASON: &str = "PostgresSecretPreflightFailed";

fn with_external() -> FireboltInstance {
    instance(MAIN, &json!({ "postgres": external() }), &json!({ "replicas": 1 }))
}

impl InstanceEnv {
    /// Waits until the instance no longer reports a problem with its Secret. An instance in this state is not requeued,
    /// so nothing but the watch of the Secret can trigger the reconcile that is waited for.
    async fn wait_until_secret_is_accepted(&self) {
        let is_past = |it: &FireboltInstance| condition(it, InstanceCondition::MetadataReady).reason != REASON;
        self.wait_for(MAIN, "has what it needs", is_past).await;
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
async fn a_missing_secret_is_reported_and_used_once_it_exists() {
    let env = InstanceEnv::start().await;
    env.create(&with_external()).await;
    let observed = env
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, REASON)
        .await;
    assert!(
        observed.message.contains(CREDENTIALS) && observed.message.contains("does not exist"),
        "{observed:?}"
    );
    let waiting = env.the::<FireboltInstance>(MAIN).await;
    assert_eq!(status(&waiting).phase, Some(InstancePhase::Provisioning));
    assert_eq!(condition(&waiting, InstanceCondition::Ready).reason, REASON);
    assert_eq!(env.children(MAIN).await.len(), 0);
    env.wait_for_event(MAIN, REASON).await;
    env.create(&credentials("open sesame")).await;
    env.wait_until_secret_is_accepted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_a_required_key_is_reported_with_the_key() {
    let env = InstanceEnv::start().await;
    let data = json!({ "password": "p", "user": "u" });
    env.create(&secret(CREDENTIALS, &data)).await;
    env.create(&with_external()).await;
    for (fault, next) in [
        ("it has no key username", json!({ "username": "u", "password": "" })),
        (
            "its key password is empty",
            json!({ "username": "u", "password": null }),
        ),
        ("it has no key password", json!({ "username": "u", "password": "p" })),
    ] {
        let reported = env.wait_for_message(MAIN, fault).await;
        let observed = condition(&reported, InstanceCondition::MetadataReady);
        assert_eq!(observed.reason, REASON);
        assert!(observed.message.contains(CREDENTIALS), "{observed:?}");
        let encoded = next.as_object().unwrap().iter().map(|(key, value)| {
            let value = value.as_str().map(|value| ByteString(value.as_bytes().to_vec()));
            (key.clone(), json!(value))
        });
        let data: serde_json::Map<String, Value> = encoded.collect();
        env.edit::<Secret>(CREDENTIALS, json!({ "data": data })).await;
    }
    env.wait_until_secret_is_accepted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_change_of_the_credentials_restarts_the_metadata_service() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("first")).await;
    env.deploy(&with_external()).await;
    let before = env.known("Deployment", "main-metadata").await;
    let (hash, pod) = (at(&before, HASH), env.metadata_pod().await);
    assert!(hash.is_string() && pod.is_some());

    let history = StatusHistory::of(&env, MAIN).await;
    let marks = env.mark();
    env.edit::<Secret>(
        CREDENTIALS,
        json!({ "metadata": { "annotations": { "example.com/note": "x" } } }),
    )
    .await;
    env.edit::<Secret>(CREDENTIALS, json!({ "stringData": { "another-key": "x" } }))
        .await;
    env.edit::<Secret>(CREDENTIALS, json!({ "metadata": { "labels": { "team": "x" } } }))
        .await;
    // What the operator does after the change of the password, it does after those before it too.
    env.edit::<Secret>(CREDENTIALS, json!({ "stringData": { "password": "second" } }))
        .await;
    let rolled = async || {
        let deployment = env.known("Deployment", "main-metadata").await;
        (at(&deployment, REVISION) == "2").then(|| at(&deployment, HASH))
    };
    let second = env.eventually("the metadata service is rolled", rolled).await;
    assert_ne!(second, hash);
    let replaced = async || env.metadata_pod().await.filter(|new| Some(new) != pod.as_ref());
    env.eventually("there is another pod", replaced).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let written = marks.writes(&env.namespace);
    let rolls = written
        .iter()
        .filter(|write| write.resource == "deployments" && write.code == 200);
    // The first write to what was only created so far hands over who set its fields.
    assert!(rolls.count() <= 2, "{written:?}");
    assert_eq!(at(&env.known("Deployment", "main-metadata").await, REVISION), "2");
    assert!(history.phases(&env).await.starts_with(&[InstancePhase::Ready]));

    // What was rolled for the sake of one password goes back to the same state for the sake of the other.
    env.edit::<Secret>(CREDENTIALS, json!({ "stringData": { "password": "first" } }))
        .await;
    let back = async || (at(&env.known("Deployment", "main-metadata").await, HASH) == hash).then_some(());
    env.eventually("the first hash is back", back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_is_reported_and_running_components_are_kept() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    env.deploy(&with_external()).await;
    let pod = env.metadata_pod().await;
    env.delete::<Secret>(CREDENTIALS).await;
    let observed = env
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, REASON)
        .await;
    assert!(observed.message.contains(CREDENTIALS), "{observed:?}");
    let degraded = env.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    assert_eq!(status(&degraded).metadata_endpoint, "");
    assert!(status(&degraded).gateway_ready);
    env.create(&credentials("open sesame")).await;
    env.wait_until_secret_is_accepted().await;
    assert_eq!(env.metadata_pod().await, pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_edit_the_instance_uses_the_new_secret_and_its_changes() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("first")).await;
    env.create(&secret("another", &json!({ "username": "u", "password": "second" })))
        .await;
    env.deploy(&with_external()).await;
    let first = at(&env.known("Deployment", "main-metadata").await, HASH);
    let history = StatusHistory::of(&env, MAIN).await;
    let postgres = json!({ "credentialsSecretRef": { "name": "another" } });
    env.edit_instance(MAIN, json!({ "spec": { "metadata": { "postgres": postgres } } }))
        .await;
    let mounted = async || {
        let deployment = env.known("Deployment", "main-metadata").await;
        let volumes = at(&deployment, "/spec/template/spec/volumes").to_string();
        (volumes.contains("another") && at(&deployment, HASH) != first).then_some(())
    };
    env.eventually("the other Secret is mounted", mounted).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let states = history.states(&env).await;
    let is_reported_missing =
        |it: &FireboltInstance| condition(it, InstanceCondition::Ready).message.contains("looked for");
    assert!(
        !states.iter().any(is_reported_missing),
        "what has not been read yet is not reported as missing"
    );
    // Its changes count from now on, and those of the first one no longer do.
    env.delete::<Secret>(CREDENTIALS).await;
    let second = at(&env.known("Deployment", "main-metadata").await, HASH);
    env.edit::<Secret>("another", json!({ "stringData": { "password": "third" } }))
        .await;
    let rolled = async || (at(&env.known("Deployment", "main-metadata").await, HASH) != second).then_some(());
    env.eventually("the metadata service is rolled again", rolled).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}
