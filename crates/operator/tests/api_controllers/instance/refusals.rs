//! What the cluster does not let us do: told in its own words, and done as soon as it does.

use firebolt_api::condition::{Condition, InstanceCondition};
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};
use kube::Api;
use serde_json::json;

use super::fixture::{MAIN, minimal};
use super::inventory::at;
use super::stage::{Stage, condition};
use crate::support::Operator;

fn quota(name: &str, resource: &str) -> ResourceQuota {
    let quota = json!({ "metadata": { "name": name }, "spec": { "hard": { resource: "0" } } });
    serde_json::from_value(quota).expect("a quota")
}

impl Stage {
    /// Leaves no room for a resource, and waits until that is in force.
    async fn forbid(&self, name: &str, resource: &str) {
        self.create(&quota(name, resource)).await;
        let counted = async || self.the::<ResourceQuota>(name).await.status?.hard;
        self.eventually("the quota is in force", counted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_leaves_no_room_is_told_in_the_words_of_the_api_server() {
    use InstanceCondition::{GatewayReady, MetadataReady};
    let quotas = [
        (
            "sets",
            "count/statefulsets.apps",
            MetadataReady,
            "PostgresEnsureFailed",
            "StatefulSet main-metadata-pg",
        ),
        (
            "deployments",
            "count/deployments.apps",
            MetadataReady,
            "EnsureFailed",
            "Deployment main-metadata",
        ),
        (
            "budgets",
            "count/poddisruptionbudgets.policy",
            GatewayReady,
            "EnsureFailed",
            "PodDisruptionBudget main-gateway",
        ),
    ];
    let stage = Stage::begin().await;
    for (name, resource, ..) in quotas {
        stage.forbid(name, resource).await;
    }
    stage.create(&minimal(MAIN)).await;
    for (name, _, kind, reason, object) in quotas {
        let said = stage.wait_for_reason(MAIN, kind, reason).await;
        for part in [object, &format!("exceeded quota: {name}"), "the operator keeps trying"] {
            assert!(said.message.contains(part), "{part} in {said:?}");
        }
        stage.wait_for_told(MAIN, reason).await;
        stage.delete::<ResourceQuota>(name).await;
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// Neither a quota for pods nor a limit range stops what has the pods, only the pods themselves.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_may_not_be_are_told_in_the_words_of_the_api_server() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    let refused = async |text: &str| {
        stage.remove("Deployment", "main-gateway").await;
        let told = stage.wait_for_message(MAIN, text).await;
        let said = condition(&told, InstanceCondition::GatewayReady).message;
        assert!(said.contains("0 of 2 pods ready"), "{said}");
    };
    stage.forbid("tight", "pods").await;
    refused("exceeded quota: tight").await;
    stage.delete::<ResourceQuota>("tight").await;
    let limits = json!([{ "type": "Container", "max": { "memory": "1Mi" } }]);
    let limits = json!({ "metadata": { "name": "tight" }, "spec": { "limits": limits } });
    let limits: LimitRange = serde_json::from_value(limits).unwrap();
    stage.create(&limits).await;
    refused("maximum memory usage per Container is 1Mi").await;
    stage.delete::<LimitRange>("tight").await;
    // Kubernetes tries again with growing pauses; whoever has made room need not wait for it.
    stage.remove("Deployment", "main-gateway").await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// The rights of the operator, as shipped, but for one namespace, so that they can be taken away there.
async fn limited(stage: &Stage) -> (Operator, Vec<PolicyRule>) {
    let shipped: Api<ClusterRole> = Api::all(stage.client.clone());
    let rules = shipped.get("firebolt-operator").await.unwrap().rules.unwrap();
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "limited" } })).unwrap();
    stage.create(&account).await;
    let role = json!({ "metadata": { "name": "limited" }, "rules": rules });
    stage.create(&serde_json::from_value::<Role>(role).unwrap()).await;
    let binding = json!({
        "metadata": { "name": "limited" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited" },
        "subjects": [{ "kind": "ServiceAccount", "name": "limited", "namespace": stage.namespace }],
    });
    stage
        .create(&serde_json::from_value::<RoleBinding>(binding).unwrap())
        .await;
    let kubeconfig = stage
        .cluster
        .service_account_kubeconfig(&stage.namespace, "limited")
        .await
        .unwrap();
    let flags = ["--leader-elect=false", "--namespaces", &stage.namespace];
    (Operator::start(&stage.cluster, &kubeconfig, &flags), rules)
}

/// The rules without these verbs on this resource.
fn without(rules: &[PolicyRule], resource: &str, verbs: &[&str]) -> Vec<PolicyRule> {
    let less = |rule: &PolicyRule| {
        let resources = rule.resources.clone().unwrap_or_default();
        let (concerned, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(|it| it == resource);
        let with = |resources: Vec<String>, kept: Vec<String>| PolicyRule {
            resources: Some(resources),
            verbs: kept,
            ..rule.clone()
        };
        let kept = rule
            .verbs
            .iter()
            .filter(|verb| !verbs.contains(&verb.as_str()))
            .cloned()
            .collect();
        [with(others, rule.verbs.clone()), with(concerned, kept)]
    };
    let rules = rules.iter().flat_map(less);
    rules
        .filter(|rule| rule.resources.as_ref().is_some_and(|it| !it.is_empty()) && !rule.verbs.is_empty())
        .collect()
}

impl Stage {
    async fn grant(&self, rules: &[PolicyRule]) {
        self.edit::<Role>("limited", json!({ "rules": rules })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_told_and_used_once_they_are_given() {
    let stage = Stage::set().await;
    let (_operator, rules) = limited(&stage).await;
    // In the order in which they are needed.
    let missing: [(&str, &[&str], &str); 4] = [
        ("secrets", &["get", "list", "watch"], "secrets"),
        ("persistentvolumeclaims", &["get"], "persistentvolumeclaims"),
        ("secrets", &["create"], "cannot create resource \"secrets\""),
        ("deployments", &["create"], "cannot create resource \"deployments\""),
    ];
    let granted = |missing: &[(&str, &[&str], &str)]| {
        let less =
            |rules: Vec<PolicyRule>, (resource, verbs, _): &(&str, &[&str], &str)| without(&rules, resource, verbs);
        missing.iter().fold(rules.clone(), less)
    };
    stage.grant(&granted(&missing)).await;
    stage.create(&minimal(MAIN)).await;
    for (given, (_, _, text)) in missing.iter().enumerate() {
        stage.wait_for_right(text).await;
        stage.grant(&granted(&missing[given + 1..])).await;
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_told_and_used_once_it_is_back() {
    let stage = Stage::set().await;
    let (_operator, rules) = limited(&stage).await;
    stage.deploy(&minimal(MAIN)).await;
    stage.grant(&without(&rules, "deployments", &["patch"])).await;
    let more = json!({ "spec": { "gateway": { "replicas": 3 } } });
    stage.edit_instance(MAIN, more).await;
    let told = stage.wait_for_right("cannot patch resource \"deployments\"").await;
    assert_eq!(told.reason, "EnsureFailed");
    stage.grant(&rules).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let gateway = stage.known("Deployment", "main-gateway").await;
    assert_eq!(at(&gateway, "/spec/replicas"), 3);
}

impl Stage {
    /// Waits until `Ready` tells of a right that is missing.
    async fn wait_for_right(&self, text: &str) -> Condition {
        let told = async || {
            let instance: FireboltInstance = self.get(MAIN).await?;
            let said = condition(&instance, InstanceCondition::Ready);
            (said.status == "False" && said.message.contains(text)).then_some(said)
        };
        self.eventually(&format!("it is told that {text}"), told).await
    }
}
