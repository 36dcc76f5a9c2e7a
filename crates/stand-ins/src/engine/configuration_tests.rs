use firebolt_api::FireboltEngine;
use firebolt_core::render::engine as render;
use firebolt_core::resolve::engine::{InstanceFacts, resolve};
use rstest::rstest;
use serde_json::json;

use super::*;

const HOST: &str = "analytics-g3-0.analytics-g3-hl.data.svc.cluster.local";

/// The configuration that the operator renders for an engine with these settings.
fn rendered(settings: &Value) -> String {
    let mut spec = json!({ "instanceRef": "main", "replicas": 2 });
    for (key, value) in settings.as_object().expect("settings") {
        spec[key] = value.clone();
    }
    let engine: FireboltEngine = serde_json::from_value(json!({
        "apiVersion": "v", "kind": "FireboltEngine",
        "metadata": { "name": "analytics", "namespace": "data", "uid": "u" }, "spec": spec,
    }))
    .expect("an engine");
    let instance = InstanceFacts {
        id: "01KA3V7J5T9PZ4X6Q8W2E0R1Y3".to_owned(),
        metadata_endpoint: "main-metadata.data.svc.cluster.local:7000".to_owned(),
    };
    let files = render::config_map(&resolve(&engine, None, &instance, &testkit::defaults!()), 3).data;
    let mut files = files.expect("files");
    files.remove("config.yaml").expect("the file that pods mount")
}

fn refusal(text: &str) -> String {
    firebolt_process::error::chain(&Configuration::parse(text).expect_err("a refusal"))
}

#[test]
fn what_the_operator_renders_is_understood() {
    let configuration = Configuration::parse(&rendered(&json!({}))).expect("a configuration");
    let second = HOST.replace("g3-0", "g3-1");
    assert_eq!(
        configuration,
        Configuration {
            engine: "analytics".to_owned(),
            instance: "01KA3V7J5T9PZ4X6Q8W2E0R1Y3".to_owned(),
            metadata_endpoint: "main-metadata.data.svc.cluster.local:7000".to_owned(),
            hosts: vec![HOST.to_owned(), second],
            termination_grace_period: Duration::from_secs(50),
        }
    );
}

#[rstest]
#[case(json!({ "replicas": 1 }))]
#[case(json!({ "replicas": 128 }))]
#[case(json!({ "metadataEndpointOverride": "10.1.2.3:7000" }))]
#[case(json!({ "metadataEndpointOverride": "[fd00::1]:7000" }))]
#[case(json!({ "customEngineConfig": { "logging": { "level": "debug" }, "engine": { "memory": 1 }, "own": { "a": [1] } } }))]
fn settings_of_users_are_understood(#[case] settings: Value) {
    Configuration::parse(&rendered(&settings)).expect("a configuration");
}

#[test]
fn an_engine_without_nodes_does_not_run() {
    assert!(refusal(&rendered(&json!({ "replicas": 0 }))).contains("engine.nodes is \"0 nodes\""));
}

#[rstest]
#[case(
    "schema_version: \"1.0\"",
    "schema_version: \"2.0\"",
    "schema_version is \"2.0\", which is not 1.0"
)]
#[case("schema_version: \"1.0\"", "schema_version: 1.0", "schema_version: invalid type")]
#[case("schema_version: \"1.0\"\n", "", "missing field `schema_version`")]
#[case("type: multi_engine", "type: single", "instance.type is \"single\"")]
#[case("id: 01KA3V7J5T9PZ4X6Q8W2E0R1Y3", "id: \"\"", "instance.id is \"\"")]
#[case(
    "metadata_endpoint: main",
    "metadata_endpoint: http://main",
    "metadata_endpoint is \"http://main-"
)]
#[case("cluster.local:7000", "cluster.local", "which is not a host and a port")]
#[case("cluster.local:7000", "cluster.local:0", "which is not a host and a port")]
#[case(
    "metadata_endpoint: ",
    "metadata_address: ",
    "instance.multi_engine.metadata_address: unknown field"
)]
#[case("id: analytics", "id: \"\"", "engine.id is \"\"")]
#[case(
    "- host: analytics-g3-1",
    "- name: analytics-g3-1",
    "engine.nodes[1].name: unknown field"
)]
#[case(
    "- host: analytics-g3-1",
    "- host: analytics-g3-0",
    "which is not the host of one node only"
)]
#[case(
    "- host: analytics-g3-1.",
    "- host: analytics-g3-1..",
    "which is not the name of a host"
)]
#[case(
    "termination_grace_period: 50s",
    "termination_grace_period: 0s",
    "which is not longer than nothing"
)]
#[case(
    "termination_grace_period: 50s",
    "termination_grace_period: 50",
    "engine.termination_grace_period: "
)]
#[case("engine:", "engine:\n  id: twice", "it is not YAML: ")]
fn a_configuration_with_a_fault_is_refused(#[case] good: &str, #[case] bad: &str, #[case] reason: &str) {
    let text = rendered(&json!({}));
    assert!(text.contains(good), "{good} is not in\n{text}");
    let error = refusal(&text.replacen(good, bad, 1));
    assert!(error.contains(reason), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn more_nodes_than_an_engine_has_are_refused() {
    let text = rendered(&json!({ "replicas": 128 }));
    let more = text.replacen("  nodes:\n", "  nodes:\n  - host: one-more\n", 1);
    assert!(refusal(&more).contains("\"129 nodes\", which is not a list of 1 to 128 nodes"));
}

#[test]
fn a_node_runs_in_its_own_pod_only() {
    let configuration = Configuration::parse(&rendered(&json!({}))).expect("a configuration");
    configuration.check_node(0, "analytics-g3-0").expect("the first");
    configuration.check_node(1, "analytics-g3-1").expect("the second");
    let error = |node, pod| configuration.check_node(node, pod).expect_err("a refusal").to_string();
    assert!(error(2, "analytics-g3-2").contains("--node is \"2\", which is not one of the 2 engine.nodes"));
    assert!(error(0, "analytics-g3-1").contains("which is not a host in this pod, analytics-g3-1"));
}
