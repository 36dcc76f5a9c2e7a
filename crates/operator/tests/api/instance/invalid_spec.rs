//! Invalid specs: reported by field, nothing is created from them, and a corrected one proceeds.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::children::CHILDREN;
use super::fixtures::{MAIN, instance, minimal};
use super::testenv::{Component, InstanceEnv, condition, status};
use crate::kubelet::pod_status::Behaviour;

/// Something that the operator decides itself, and where it stands.
fn metadata_arguments() -> (Value, Value, &'static str) {
    let containers = json!([{ "name": "metadata", "args": ["--theirs"] }]);
    let metadata = json!({ "template": { "spec": { "containers": containers } } });
    (
        metadata,
        json!({}),
        "spec.metadata.template.spec.containers[metadata].args",
    )
}

fn gateway_command() -> (Value, Value, &'static str) {
    let containers = json!([{ "name": "envoy", "command": ["theirs"] }]);
    let gateway = json!({ "template": { "spec": { "containers": containers } } });
    (
        json!({}),
        gateway,
        "spec.gateway.template.spec.containers[envoy].command",
    )
}

fn gateway_label() -> (Value, Value, &'static str) {
    let labels = json!({ "firebolt.io/instance": "theirs" });
    let gateway = json!({ "template": { "metadata": { "labels": labels } } });
    (json!({}), gateway, "spec.gateway.template.metadata.labels")
}

fn metrics_port() -> (Value, Value, &'static str) {
    (json!({}), json!({ "metricsPort": 8080 }), "spec.gateway.metricsPort")
}

fn concerns(path: &str) -> (InstanceCondition, &'static str) {
    if path.starts_with("spec.metadata") {
        (InstanceCondition::MetadataReady, "metadata")
    } else {
        (InstanceCondition::GatewayReady, "gateway")
    }
}

impl InstanceEnv {
    async fn made_of(&self, component: &str) -> Vec<String> {
        let mut made = Vec::new();
        for (kind, rest, of) in CHILDREN {
            let name = format!("{MAIN}-{rest}");
            if of == component && self.find(kind, &name).await.is_some() {
                made.push(format!("{kind} {name}"));
            }
        }
        made
    }
}

/// The edit of an instance that gives it these components and nothing else.
fn components(metadata: &Value, gateway: &Value) -> Value {
    let nothing = json!({ "template": null });
    let with = |component: &Value, port: Value| {
        let mut all = nothing.clone();
        all["metricsPort"] = port;
        for (key, value) in component.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    };
    json!({ "spec": { "metadata": with(metadata, Value::Null), "gateway": with(gateway, json!(9090)) } })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_spec_is_reported_and_creates_nothing() {
    let env = InstanceEnv::start().await;
    let (metadata, gateway, _) = metadata_arguments();
    env.create(&instance(MAIN, &metadata, &gateway)).await;
    for (metadata, gateway, path) in [metadata_arguments(), gateway_command(), gateway_label(), metrics_port()] {
        env.edit_instance(MAIN, components(&metadata, &gateway)).await;
        let reported = env.wait_for_message(MAIN, path).await;
        let (kind, component) = concerns(path);
        let observed = condition(&reported, kind);
        assert_eq!(observed.reason, "TemplateRejected");
        assert!(observed.message.contains(path), "{observed:?}");
        assert_eq!(status(&reported).phase, Some(InstancePhase::Provisioning));
        env.wait_until_no_reconcile_is_scheduled().await;
        assert_eq!(env.made_of(component).await, Vec::<String>::new());
    }
    env.wait_for_event(MAIN, "TemplateRejected").await;
    env.edit_instance(MAIN, components(&json!({}), &json!({}))).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_edit_leaves_running_components_unchanged() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    for (metadata, gateway, path) in [metadata_arguments(), gateway_command()] {
        let (kind, component) = concerns(path);
        let name = format!("{MAIN}-{component}");
        let before = env.known("Deployment", &name).await;
        env.edit_instance(MAIN, components(&metadata, &gateway)).await;
        let observed = env.wait_for_reason(MAIN, kind, "TemplateRejected").await;
        assert!(observed.message.contains(path), "{observed:?}");
        let degraded = env.the::<FireboltInstance>(MAIN).await;
        assert_eq!(status(&degraded).phase, Some(InstancePhase::Degraded));
        let after = env.known("Deployment", &name).await;
        assert_eq!(
            (after.uid(), after.metadata.generation),
            (before.uid(), before.metadata.generation)
        );
        env.edit_instance(MAIN, components(&json!({}), &json!({}))).await;
        env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }
}

/// All faults of both components are reported at once, so that users do not have to find them one by one.
#[tokio::test(flavor = "multi_thread")]
async fn all_violations_are_reported_at_once() {
    let env = InstanceEnv::start().await;
    let (metadata, _, first) = metadata_arguments();
    let (_, mut gateway, second) = gateway_command();
    gateway["metricsPort"] = json!(9901);
    env.set_behaviour(MAIN, Component::Postgres, Behaviour::Pending);
    env.create(&instance(MAIN, &metadata, &gateway)).await;
    let is = env.wait_for_message(MAIN, first).await;
    let observed = condition(&is, InstanceCondition::GatewayReady).message;
    assert!(
        observed.contains(second) && observed.contains("spec.gateway.metricsPort"),
        "{observed}"
    );
}
