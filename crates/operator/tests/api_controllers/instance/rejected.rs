//! Specifications that cannot be: named by field, nothing is made of them, and a corrected one goes on.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::fixture::{MAIN, instance, minimal};
use super::inventory::CHILDREN;
use super::stage::{Component, Stage, condition, status};
use crate::pod_status::Behaviour;

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

impl Stage {
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
async fn a_specification_that_cannot_be_is_named_and_nothing_is_made_of_it() {
    let stage = Stage::begin().await;
    let (metadata, gateway, _) = metadata_arguments();
    stage.create(&instance(MAIN, &metadata, &gateway)).await;
    for (metadata, gateway, path) in [metadata_arguments(), gateway_command(), gateway_label(), metrics_port()] {
        stage.edit_instance(MAIN, components(&metadata, &gateway)).await;
        let told = stage.wait_for_message(MAIN, path).await;
        let (kind, component) = concerns(path);
        let said = condition(&told, kind);
        assert_eq!(said.reason, "TemplateRejected");
        assert!(said.message.contains(path), "{said:?}");
        assert_eq!(status(&told).phase, Some(InstancePhase::Provisioning));
        stage.wait_until_nothing_is_planned().await;
        assert_eq!(stage.made_of(component).await, Vec::<String>::new());
    }
    stage.wait_for_told(MAIN, "TemplateRejected").await;
    stage.edit_instance(MAIN, components(&json!({}), &json!({}))).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_left_alone_by_an_edit_that_cannot_be() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    for (metadata, gateway, path) in [metadata_arguments(), gateway_command()] {
        let (kind, component) = concerns(path);
        let name = format!("{MAIN}-{component}");
        let before = stage.known("Deployment", &name).await;
        stage.edit_instance(MAIN, components(&metadata, &gateway)).await;
        let said = stage.wait_for_reason(MAIN, kind, "TemplateRejected").await;
        assert!(said.message.contains(path), "{said:?}");
        let degraded = stage.the::<FireboltInstance>(MAIN).await;
        assert_eq!(status(&degraded).phase, Some(InstancePhase::Degraded));
        let after = stage.known("Deployment", &name).await;
        assert_eq!(
            (after.uid(), after.metadata.generation),
            (before.uid(), before.metadata.generation)
        );
        stage.edit_instance(MAIN, components(&json!({}), &json!({}))).await;
        stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }
}

/// All faults of both components are told at once, so that nobody has to find them one by one.
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_told_at_once() {
    let stage = Stage::begin().await;
    let (metadata, _, first) = metadata_arguments();
    let (_, mut gateway, second) = gateway_command();
    gateway["metricsPort"] = json!(9901);
    stage.fares(MAIN, Component::Postgres, Behaviour::Pending);
    stage.create(&instance(MAIN, &metadata, &gateway)).await;
    let is = stage.wait_for_message(MAIN, first).await;
    let said = condition(&is, InstanceCondition::GatewayReady).message;
    assert!(
        said.contains(second) && said.contains("spec.gateway.metricsPort"),
        "{said}"
    );
}
