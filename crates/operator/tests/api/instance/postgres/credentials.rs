//! The password of our own PostgreSQL: created once, never overwritten, and reported when it is lost.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::ResourceExt;
use serde_json::json;

use crate::instance::children::at;
use crate::instance::fixtures::{MAIN, minimal};
use crate::instance::testenv::{InstanceEnv, condition, status};

const SECRET: &str = "main-metadata-postgres-creds";
const CLAIM: &str = "data-main-metadata-pg-0";
const HASH: &str = "/spec/template/metadata/annotations/firebolt.io~1credentials-hash";

impl InstanceEnv {
    async fn password(&self, secret: &str) -> Option<Vec<u8>> {
        let secret: Secret = self.get(secret).await?;
        secret.data?.remove("password").map(|password| password.0)
    }

    /// Deletes the credentials and waits until that is reported.
    async fn lose_credentials(&self) -> FireboltInstance {
        self.delete::<Secret>(SECRET).await;
        self.wait_for_phase(MAIN, InstancePhase::Failed).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_credentials_are_reported_with_the_remedy_and_can_be_restored() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let (saved, hash): (Secret, _) = (
        env.the(SECRET).await,
        at(&env.known("Deployment", "main-metadata").await, HASH),
    );
    let failed = env.lose_credentials().await;
    let reported = condition(&failed, InstanceCondition::Ready);
    assert_eq!(reported.reason, "PostgresCredentialsLost");
    for part in [SECRET, CLAIM, "Restore the Secret"] {
        assert!(reported.message.contains(part), "{part} in {reported:?}");
    }
    assert_eq!(
        (
            status(&failed).metadata_endpoint.as_str(),
            status(&failed).gateway_ready
        ),
        ("", true)
    );
    env.wait_for_event(MAIN, "PostgresCredentialsLost").await;
    assert_eq!(
        env.get::<Secret>(SECRET).await,
        None,
        "no password is made that cannot work"
    );

    // From a backup that knows nothing of labels and owners.
    let mut restored = Secret {
        data: saved.data,
        type_: saved.type_,
        ..Secret::default()
    };
    restored.metadata.name = Some(SECRET.to_owned());
    env.create(&restored).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let deployment = env.known("Deployment", "main-metadata").await;
    assert_eq!(at(&deployment, HASH), hash, "the same password restarts nothing");
    assert!(
        env.the::<Secret>(SECRET).await.owner_references().is_empty(),
        "it is used as it is"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn following_the_reported_remedy_creates_a_new_database() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let (password, claim) = (
        env.password(SECRET).await,
        env.the::<PersistentVolumeClaim>(CLAIM).await,
    );
    let failed = env.lose_credentials().await;
    let reported = condition(&failed, InstanceCondition::Ready).message;
    assert!(
        reported.contains("delete StatefulSet main-metadata-pg and then the claim"),
        "{reported}"
    );
    env.delete::<StatefulSet>("main-metadata-pg").await;
    env.delete::<PersistentVolumeClaim>(CLAIM).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let new = env.password(SECRET).await;
    assert!(new.is_some() && new != password);
    assert_ne!(env.the::<PersistentVolumeClaim>(CLAIM).await.uid(), claim.uid());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_were_changed_by_hand_are_reported_and_never_overwritten() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let hash = at(&env.known("Deployment", "main-metadata").await, HASH);
    env.edit::<Secret>(SECRET, json!({ "stringData": { "username": "theirs" } }))
        .await;
    let reported = env
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, "PostgresEnsureFailed")
        .await;
    assert!(
        reported.message.contains(SECRET) && reported.message.contains("its key username must be firebolt"),
        "{reported:?}"
    );
    env.edit::<Secret>(SECRET, json!({ "stringData": { "username": "firebolt" } }))
        .await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    // A user who has changed it in the database too.
    env.edit::<Secret>(SECRET, json!({ "stringData": { "password": "theirs" } }))
        .await;
    let rolled = async || (at(&env.known("Deployment", "main-metadata").await, HASH) != hash).then_some(());
    env.eventually("the metadata service is rolled", rolled).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    assert_eq!(env.password(SECRET).await, Some(b"theirs".to_vec()));
}

/// Neither the data nor the password of the instance before it: it is a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_instance_gets_a_new_password() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let first = env.password(SECRET).await;
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
    env.deploy(&minimal(MAIN)).await;
    let second = env.password(SECRET).await;
    assert!(first.is_some() && second.is_some() && first != second);
}
