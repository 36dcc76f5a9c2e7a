//! Objects of others under our names: never changed, reported, and no obstacle once they are gone.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::key::FIELD_MANAGER;
use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::fixtures::stateful_set;
use crate::instance::children::{CHILDREN, at};
use crate::instance::fixtures::{MAIN, minimal};
use crate::instance::testenv::{InstanceEnv, condition, status};

/// An object of this kind, as short as the API server takes it.
fn theirs(kind: &str, name: &str) -> Value {
    let pods = json!({ "matchLabels": { "app": "theirs" } });
    let set = || json!(stateful_set("theirs", 1).spec.unwrap());
    let mut deployment = set();
    for field in ["serviceName", "podManagementPolicy"] {
        deployment.as_object_mut().unwrap().remove(field);
    }
    let mut object = match kind {
        "Deployment" => json!({ "spec": deployment }),
        "StatefulSet" => json!({ "spec": set() }),
        "Service" => json!({ "spec": { "ports": [{ "port": 80 }], "selector": { "app": "theirs" } } }),
        "PodDisruptionBudget" => json!({ "spec": { "maxUnavailable": 1, "selector": pods } }),
        "RoleBinding" => json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs" },
        }),
        "ConfigMap" | "Role" | "ServiceAccount" => json!({}),
        other => panic!("how does one make a {other}?"),
    };
    object["metadata"] = json!({ "name": name });
    object
}

impl InstanceEnv {
    async fn put(&self, kind: &str, object: Value) -> DynamicObject {
        let mut object = object;
        object["apiVersion"] = json!(match kind {
            "Deployment" | "StatefulSet" => "apps/v1",
            "Role" | "RoleBinding" => "rbac.authorization.k8s.io/v1",
            "PodDisruptionBudget" => "policy/v1",
            _ => "v1",
        });
        object["kind"] = json!(kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.any(kind).create(&PostParams::default(), &object).await.unwrap()
    }

    async fn is_untouched(&self, kind: &str, before: &DynamicObject) {
        let now = self.known(kind, &before.name_any()).await;
        assert_eq!(now.uid(), before.uid());
        assert_eq!(now.metadata.deletion_timestamp, None);
        assert_eq!(
            (now.labels(), now.owner_references()),
            (before.labels(), before.owner_references())
        );
        let mut managers = now.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
        assert!(!managers.any(|manager| manager == FIELD_MANAGER), "{now:?}");
    }
}

/// For each object that we make, an instance whose object of that name belongs to another owner: every other one with labels
/// of ours, as if it were copied.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_owner_is_reported_and_left_alone_until_it_is_deleted() {
    let env = InstanceEnv::start().await;
    let children: Vec<_> = CHILDREN.into_iter().filter(|(kind, _, _)| *kind != "Secret").collect();
    let mut in_the_way = Vec::new();
    for (index, (kind, rest, component)) in children.iter().enumerate() {
        let instance = format!("i{index}");
        let mut object = theirs(kind, &format!("{instance}-{rest}"));
        if index % 2 == 0 {
            object["metadata"]["labels"] =
                json!({ "firebolt.io/instance": instance, "firebolt.io/component": component });
        }
        in_the_way.push((*kind, instance.clone(), env.put(kind, object).await));
        env.create(&minimal(&instance)).await;
    }
    for (kind, instance, object) in &in_the_way {
        let failed = env.wait_for_phase(instance, InstancePhase::Failed).await;
        let reported = condition(&failed, InstanceCondition::Ready);
        assert_eq!(reported.reason, "ForeignObject");
        for part in [*kind, &object.name_any(), &object.uid().unwrap()] {
            assert!(reported.message.contains(part), "{part} in {reported:?}");
        }
        env.is_untouched(kind, object).await;
    }
    for (kind, _, object) in &in_the_way {
        env.remove(kind, &object.name_any()).await;
    }
    for (kind, instance, object) in &in_the_way {
        let ready = env.wait_for_phase(instance, InstancePhase::Ready).await;
        let ours = env.known(kind, &object.name_any()).await;
        assert_eq!(at(&ours, "/metadata/ownerReferences/0/uid"), json!(ready.uid()));
    }
}

/// An object of ours that was given away belongs to another owner.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_owner_reference_is_left_alone() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.merge(
        "ConfigMap",
        "main-gateway-config",
        json!({ "metadata": { "ownerReferences": null } }),
    )
    .await;
    let taken = env.known("ConfigMap", "main-gateway-config").await;
    let failed = env.wait_for_phase(MAIN, InstancePhase::Failed).await;
    let reported = condition(&failed, InstanceCondition::GatewayReady);
    assert!(
        reported.message.contains("ConfigMap main-gateway-config"),
        "{reported:?}"
    );
    assert!(status(&failed).metadata_ready);
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
    let now = env.known("ConfigMap", "main-gateway-config").await;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (taken.uid(), None));
}

/// With the name of our Secret, a user can bring a password.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_owner_with_the_expected_name_is_used_if_it_is_valid() {
    let env = InstanceEnv::start().await;
    let data = json!({ "username": "firebolt", "password": "theirs" });
    let theirs = env
        .create(&crate::instance::fixtures::secret(
            "main-metadata-postgres-creds",
            &data,
        ))
        .await;
    env.create(&minimal(MAIN)).await;
    let reported = env
        .wait_for_reason(MAIN, InstanceCondition::MetadataReady, "PostgresEnsureFailed")
        .await;
    assert!(reported.message.contains("it has no key database"), "{reported:?}");
    let database = json!({ "stringData": { "database": "firebolt_metadata" } });
    env.merge("Secret", "main-metadata-postgres-creds", database).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
    let now = env.known("Secret", "main-metadata-postgres-creds").await;
    assert_eq!(now.uid(), theirs.uid(), "what is theirs stays when the instance goes");
}
