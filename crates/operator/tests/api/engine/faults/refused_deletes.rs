//! A policy of the cluster refuses to delete an object of a generation that is given up.

use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use serde_json::json;

use super::invariants::Invariants;
use crate::fixtures::{engine, new_image};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_generation_that_cannot_be_deleted_whole_does_not_hold_up_the_next() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a")).await;
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Unready);
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.eventually("the pod of generation 1 is there", async || {
        env.get::<Pod>("a-g1-0").await
    })
    .await;
    let policy = Policy::refuse_to_delete(&env, "a-g1-hl").await;
    env.edit_engine("a", new_image("registry.example/engine:3")).await;
    env.wait_for_generation("a", 2).await;
    all_but_the_service_are_gone(&env, 1).await;
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    policy.lift();
    nothing_is_left_of(&env, 1).await;
    nothing_is_left_of(&env, 0).await;
    invariants.hold().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_generation_that_cannot_be_deleted_whole_does_not_hold_up_the_end_of_the_rollout() {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    env.deploy(&engine("a")).await;
    let policy = Policy::refuse_to_delete(&env, "a-g0-hl").await;
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.wait_for_generation("a", 1).await;
    all_but_the_service_are_gone(&env, 0).await;
    policy.lift();
    nothing_is_left_of(&env, 0).await;
    invariants.hold().await;
}

/// Of a generation whose headless Service cannot be deleted, the other objects are deleted, and the engine says which
/// object is left.
async fn all_but_the_service_are_gone(env: &TestEnv, generation: i64) {
    env.wait_until_gone::<StatefulSet>(&format!("a-g{generation}")).await;
    env.wait_until_gone::<ConfigMap>(&format!("a-g{generation}-config"))
        .await;
    let service = format!("a-g{generation}-hl");
    assert_eq!(env.the::<Service>(&service).await.metadata.deletion_timestamp, None);
    let named = async || {
        let engine = env.the::<FireboltEngine>("a").await;
        let conditions = engine.status.into_iter().flat_map(|status| status.conditions);
        let messages = conditions.map(|condition| condition.message);
        let events = env.events("a").await.into_iter().map(|event| event.message);
        messages.chain(events).any(|text| text.contains(&service)).then_some(())
    };
    env.eventually(&format!("the engine names Service {service}"), named)
        .await;
}

async fn nothing_is_left_of(env: &TestEnv, generation: i64) {
    env.wait_until_gone::<StatefulSet>(&format!("a-g{generation}")).await;
    env.wait_until_gone::<Service>(&format!("a-g{generation}-hl")).await;
    env.wait_until_gone::<ConfigMap>(&format!("a-g{generation}-config"))
        .await;
    env.wait_for_reason("a", "EngineReady").await;
}

/// A policy in force in the namespace of a test.
struct Policy<'env> {
    env: &'env TestEnv,
    service: &'static str,
}

impl<'env> Policy<'env> {
    /// Has the API server refuse to delete a Service, which exists.
    async fn refuse_to_delete(env: &'env TestEnv, service: &'static str) -> Self {
        let name = &env.namespace;
        let policy = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
              "metadata": { "name": name }, "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["services"],
                }] },
                "validations": [{ "expression": format!("request.name != '{service}'"), "message": "it is precious" }],
            } },
            { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
              "metadata": { "name": name }, "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
            } },
        ] });
        let apply = ["apply", "-f", "-"];
        env.cluster.kubectl_with_input(&apply, &policy.to_string()).unwrap();
        let policy = Self { env, service };
        let in_force = async || policy.try_to_delete().is_err().then_some(());
        env.eventually("the policy is in force", in_force).await;
        policy
    }

    fn lift(self) {
        let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
        let delete = ["delete", kinds, &self.env.namespace];
        self.env.cluster.kubectl(&delete).unwrap();
    }

    /// Tries whether the Service could be deleted.
    fn try_to_delete(&self) -> localkube::Result<String> {
        self.env
            .kubectl(&["delete", "service", self.service, "--dry-run=server"])
    }
}
