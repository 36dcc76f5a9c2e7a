//! Another database: rejected while engines use the old one, and without loss when none does.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::instance::children::at;
use crate::instance::fixtures::{CREDENTIALS, MAIN, credentials, engine_of, external, instance, minimal};
use crate::instance::testenv::{InstanceEnv, condition, status};

const SECRET: &str = "main-metadata-postgres-creds";
const CLAIM: &str = "data-main-metadata-pg-0";

fn database(postgres: &Value) -> Value {
    json!({ "spec": { "metadata": { "postgres": postgres } } })
}

impl InstanceEnv {
    /// The Secret that the metadata service reads.
    async fn used(&self) -> String {
        let deployment = self.known("Deployment", "main-metadata").await;
        let volumes = at(&deployment, "/spec/template/spec/volumes");
        let mut volumes = volumes.as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == "postgres-creds").unwrap();
        volume["secret"]["secretName"].as_str().unwrap().to_owned()
    }

    async fn wait_until_used(&self, secret: &str) {
        let used = async || (self.used().await == secret).then_some(());
        self.eventually(&format!("the metadata service uses {secret}"), used)
            .await;
        self.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }

    async fn is_refused(&self, engine: &str) -> FireboltInstance {
        let reported = self
            .wait_for_reason(MAIN, InstanceCondition::Ready, "PostgresSwitchRefused")
            .await;
        let named = reported.message.contains(&format!("engine {engine}"))
            && reported.message.contains("spec.metadata.postgres");
        assert!(named, "{reported:?}");
        self.the(MAIN).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_can_change_and_change_back_while_no_engine_references_the_instance() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.create(&credentials("open sesame")).await;
    let (secret, claim): (Secret, PersistentVolumeClaim) = (env.the(SECRET).await, env.the(CLAIM).await);
    env.edit_instance(MAIN, database(&external())).await;
    env.wait_until_used(CREDENTIALS).await;
    env.wait_until_gone::<StatefulSet>("main-metadata-pg").await;
    assert_eq!(env.find("Service", "main-metadata-pg").await, None);
    env.edit_instance(MAIN, database(&Value::Null)).await;
    env.wait_until_used(SECRET).await;
    assert_eq!(env.the::<Secret>(SECRET).await.data, secret.data);
    assert_eq!(env.the::<PersistentVolumeClaim>(CLAIM).await.uid(), claim.uid());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_database_is_not_replaced_while_an_engine_references_the_instance() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.create(&credentials("open sesame")).await;
    env.create(&engine_of(MAIN, "a").0).await;
    env.wait_for_generation("a", 0).await;
    let set: StatefulSet = env.the("main-metadata-pg").await;
    env.edit_instance(MAIN, database(&external())).await;
    let refused = env.is_refused("a").await;
    // It goes on to work with what it has.
    assert!(status(&refused).metadata_ready && !status(&refused).metadata_endpoint.is_empty());
    assert_eq!(condition(&refused, InstanceCondition::MetadataReady).status, "True");
    env.wait_for_event(MAIN, "PostgresSwitchRefused").await;
    assert_eq!(env.used().await, SECRET);
    assert_eq!(
        env.the::<StatefulSet>("main-metadata-pg").await.metadata.generation,
        set.metadata.generation
    );
    env.edit_instance(MAIN, database(&Value::Null)).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;

    // Once no engine needs the old one, the change continues automatically.
    env.edit_instance(MAIN, database(&external())).await;
    env.is_refused("a").await;
    env.delete::<FireboltEngine>("a").await;
    env.wait_until_used(CREDENTIALS).await;
    env.wait_until_gone::<StatefulSet>("main-metadata-pg").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_database_is_not_replaced_while_an_engine_references_the_instance() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    env.deploy(&instance(MAIN, &json!({ "postgres": external() }), &json!({})))
        .await;
    env.create(&engine_of(MAIN, "a").0).await;
    env.wait_for_generation("a", 0).await;
    env.edit_instance(MAIN, database(&Value::Null)).await;
    env.is_refused("a").await;
    assert_eq!(env.used().await, CREDENTIALS);
    assert_eq!(env.find("StatefulSet", "main-metadata-pg").await, None);
    assert_eq!(env.get::<Secret>(SECRET).await, None);
    env.edit_instance(MAIN, database(&external())).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}
