//! Writes that the cluster rejects: reported in its words, and retried until it accepts them.

use firebolt_api::condition::{Condition, InstanceCondition};
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};
use kube::Api;
use serde_json::json;

use crate::instance::children::at;
use crate::instance::fixtures::{MAIN, minimal};
use crate::instance::testenv::{InstanceEnv, condition};
use crate::support::Operator;

fn quota(name: &str, resource: &str) -> ResourceQuota {
    let quota = json!({ "metadata": { "name": name }, "spec": { "hard": { resource: "0" } } });
    serde_json::from_value(quota).expect("a quota")
}

impl InstanceEnv {
    /// Leaves no room for a resource, and waits until that is in force.
    async fn forbid(&self, name: &str, resource: &str) {
        self.create(&quota(name, resource)).await;
        let counted = async || self.the::<ResourceQuota>(name).await.status?.hard;
        self.eventually("the quota is in force", counted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exceeded_quota_is_reported_with_the_message_of_the_api_server() {
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
    let env = InstanceEnv::start().await;
    for (name, resource, ..) in quotas {
        env.forbid(name, resource).await;
    }
    env.create(&minimal(MAIN)).await;
    for (name, _, kind, reason, object) in quotas {
        let observed = env.wait_for_reason(MAIN, kind, reason).await;
        for part in [object, &format!("exceeded quota: {name}"), "the operator retries"] {
            assert!(observed.message.contains(part), "{part} in {observed:?}");
        }
        env.wait_for_event(MAIN, reason).await;
        env.delete::<ResourceQuota>(name).await;
    }
    let errors = env
        .operator()
        .metric(r#"controller_runtime_reconcile_errors_total{controller="fireboltinstance"}"#);
    assert!(errors >= Some(3.0), "each rejection is an error: {errors:?}");
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// A quota for pods or a limit range rejects the pods, but not their Deployment or StatefulSet.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_pods_are_reported_with_the_message_of_the_api_server() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let refused = async |text: &str| {
        env.remove("Deployment", "main-gateway").await;
        let reported = env.wait_for_message(MAIN, text).await;
        let observed = condition(&reported, InstanceCondition::GatewayReady).message;
        assert!(observed.contains("0 of 2 pods ready"), "{observed}");
    };
    env.forbid("tight", "pods").await;
    refused("exceeded quota: tight").await;
    env.delete::<ResourceQuota>("tight").await;
    let limits = json!([{ "type": "Container", "max": { "memory": "1Mi" } }]);
    let limits = json!({ "metadata": { "name": "tight" }, "spec": { "limits": limits } });
    let limits: LimitRange = serde_json::from_value(limits).unwrap();
    env.create(&limits).await;
    refused("maximum memory usage per Container is 1Mi").await;
    env.delete::<LimitRange>("tight").await;
    // Kubernetes retries with a growing backoff; a user who has removed the limit need not wait for it.
    env.remove("Deployment", "main-gateway").await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// The rights of the operator, as shipped, but for one namespace, so that they can be taken away there.
async fn limited(env: &InstanceEnv) -> (Operator, Vec<PolicyRule>) {
    let shipped: Api<ClusterRole> = Api::all(env.client.clone());
    let rules = shipped.get("firebolt-operator").await.unwrap().rules.unwrap();
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "limited" } })).unwrap();
    env.create(&account).await;
    let role = json!({ "metadata": { "name": "limited" }, "rules": rules });
    env.create(&serde_json::from_value::<Role>(role).unwrap()).await;
    let binding = json!({
        "metadata": { "name": "limited" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited" },
        "subjects": [{ "kind": "ServiceAccount", "name": "limited", "namespace": env.namespace }],
    });
    env.create(&serde_json::from_value::<RoleBinding>(binding).unwrap())
        .await;
    let kubeconfig = env
        .cluster
        .service_account_kubeconfig(&env.namespace, "limited")
        .await
        .unwrap();
    let flags = ["--leader-elect=false", "--namespaces", &env.namespace];
    (Operator::start(&env.cluster, &kubeconfig, &flags), rules)
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

impl InstanceEnv {
    async fn grant(&self, rules: &[PolicyRule]) {
        self.edit::<Role>("limited", json!({ "rules": rules })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported_and_used_once_they_are_granted() {
    let env = InstanceEnv::without_operator().await;
    let (_operator, rules) = limited(&env).await;
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
    env.grant(&granted(&missing)).await;
    env.create(&minimal(MAIN)).await;
    for (given, (_, _, text)) in missing.iter().enumerate() {
        env.wait_for_right(text).await;
        env.grant(&granted(&missing[given + 1..])).await;
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_permission_is_reported_and_used_once_it_is_granted_again() {
    let env = InstanceEnv::without_operator().await;
    let (_operator, rules) = limited(&env).await;
    env.deploy(&minimal(MAIN)).await;
    env.grant(&without(&rules, "deployments", &["patch"])).await;
    let more = json!({ "spec": { "gateway": { "replicas": 3 } } });
    env.edit_instance(MAIN, more).await;
    let reported = env.wait_for_right("cannot patch resource \"deployments\"").await;
    assert_eq!(reported.reason, "EnsureFailed");
    env.grant(&rules).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    let gateway = env.known("Deployment", "main-gateway").await;
    assert_eq!(at(&gateway, "/spec/replicas"), 3);
}

impl InstanceEnv {
    /// Waits until `Ready` tells of a right that is missing.
    async fn wait_for_right(&self, text: &str) -> Condition {
        let reported = async || {
            let instance: FireboltInstance = self.get(MAIN).await?;
            let observed = condition(&instance, InstanceCondition::Ready);
            (observed.status == "False" && observed.message.contains(text)).then_some(observed)
        };
        self.eventually(&format!("it is reported that {text}"), reported).await
    }
}
