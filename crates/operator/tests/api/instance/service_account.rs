//! The service account of gateways: our own, with the least permissions, or one of the user.

use firebolt_api::{FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::children::at;
use super::fixtures::{MAIN, engine_of, instance, minimal};
use super::testenv::InstanceEnv;
use crate::testenv::TestEnv;

/// What comes with an account of ours.
const OURS: [(&str, &str); 3] = [
    ("ServiceAccount", "main-gateway"),
    ("Role", "main-gateway-wake"),
    ("RoleBinding", "main-gateway-wake"),
];
const USED: &str = "/spec/template/spec/serviceAccountName";

fn account(name: &str) -> ServiceAccount {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("an account")
}

fn gateway_of(account: &Value) -> Value {
    json!({ "spec": { "gateway": { "template": { "spec": { "serviceAccountName": account } } } } })
}

impl InstanceEnv {
    async fn wait_for_account(&self, used: &str, ours: bool) {
        let settled = async || {
            let deployment = self.find("Deployment", "main-gateway").await?;
            let mut there = Vec::new();
            for (kind, name) in OURS {
                there.push(self.find(kind, name).await.is_some());
            }
            (at(&deployment, USED) == used && there == [ours; 3]).then_some(())
        };
        self.eventually(&format!("the gateway runs under {used}"), settled)
            .await;
        self.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_of_a_user_replaces_the_one_of_the_operator_until_it_is_removed() {
    let env = InstanceEnv::start().await;
    env.create(&account("theirs")).await;
    let template = json!({ "spec": { "serviceAccountName": "theirs" } });
    env.deploy(&instance(MAIN, &json!({}), &json!({ "template": template })))
        .await;
    env.wait_for_account("theirs", false).await;
    env.edit_instance(MAIN, gateway_of(&Value::Null)).await;
    env.wait_for_account("main-gateway", true).await;
    env.edit_instance(MAIN, gateway_of(&json!("theirs"))).await;
    env.wait_for_account("theirs", false).await;
    env.edit_instance(MAIN, json!({ "spec": { "gateway": { "template": null } } }))
        .await;
    env.wait_for_account("main-gateway", true).await;
    let theirs: ServiceAccount = env.the("theirs").await;
    assert!(
        theirs.labels().is_empty() && theirs.owner_references().is_empty(),
        "{theirs:?}"
    );
}

/// The account is not one of a user only because a user writes its name down.
#[tokio::test(flavor = "multi_thread")]
async fn naming_the_default_account_keeps_the_one_of_the_operator() {
    let env = InstanceEnv::start().await;
    let template = json!({ "spec": { "serviceAccountName": "main-gateway" } });
    let desired = instance(MAIN, &json!({}), &json!({ "template": template }));
    env.deploy(&desired).await;
    env.wait_for_account("main-gateway", true).await;
}

async fn gateway_client(env: &InstanceEnv) -> Client {
    let kubeconfig = env
        .cluster
        .service_account_kubeconfig(&env.namespace, "main-gateway")
        .await;
    env.cluster.client_for(&kubeconfig.unwrap()).await.unwrap()
}

/// What the bearer may do in a namespace, but for what everybody may: to ask who they are and what they may do.
async fn rights(client: &Client, namespace: &str) -> Vec<ResourceRule> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    let status = answer.status.expect("an answer");
    assert!(!status.incomplete, "{status:?}");
    let everybodys = ["authorization.k8s.io", "authentication.k8s.io"];
    let is_everybodys = |rule: &ResourceRule| {
        let groups = rule.api_groups.clone().unwrap_or_default();
        groups.iter().all(|group| everybodys.contains(&group.as_str()))
    };
    status
        .resource_rules
        .into_iter()
        .filter(|rule| !is_everybodys(rule))
        .collect()
}

fn is_forbidden<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> bool {
    match answer {
        Err(kube::Error::Api(status)) => status.code == 403,
        Err(_) | Ok(_) => panic!("neither done nor forbidden, or done: {answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_may_read_and_wake_engines_of_its_namespace_and_nothing_else() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.create(&engine_of(MAIN, "a").0).await;
    let client = gateway_client(&env).await;
    let expected = ResourceRule {
        api_groups: Some(vec!["compute.firebolt.io".to_owned()]),
        resource_names: None,
        resources: Some(vec!["fireboltengines".to_owned()]),
        verbs: ["get", "list", "patch"].map(str::to_owned).to_vec(),
    };
    assert_eq!(rights(&client, &env.namespace).await, [expected]);
    let elsewhere = TestEnv::without_instance().await;
    assert_eq!(rights(&client, &elsewhere.namespace).await, []);

    let engines: Api<FireboltEngine> = Api::namespaced(client.clone(), &env.namespace);
    assert_eq!(engines.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let wake = json!({ "metadata": { "annotations": { "firebolt.io/wake-requested": "now" } } });
    let (nothing, wake) = (PatchParams::default(), Patch::Merge(&wake));
    engines.patch("a", &nothing, &wake).await.unwrap();
    assert!(
        engines
            .get("a")
            .await
            .unwrap()
            .annotations()
            .contains_key("firebolt.io/wake-requested")
    );
    assert!(is_forbidden(engines.patch_status("a", &nothing, &wake).await));
    assert!(is_forbidden(engines.delete("a", &DeleteParams::default()).await));
    assert!(is_forbidden(
        engines.create(&PostParams::default(), &engine_of(MAIN, "b").0).await
    ));
    assert!(is_forbidden(
        engines.watch(&WatchParams::default(), "0").await.map(drop)
    ));
    let instances: Api<FireboltInstance> = Api::namespaced(client.clone(), &env.namespace);
    assert!(is_forbidden(instances.get(MAIN).await));
    let secrets: Api<Secret> = Api::namespaced(client, &env.namespace);
    assert!(is_forbidden(
        secrets.get("main-metadata-postgres-creds").await.map(drop)
    ));
}
