//! The manifest of the operator: its pods pass the `restricted` standard, and its flags and ports are right.

use clap::Parser as _;
use firebolt_operator::cli::{Cli, Command};
use localkube::Cluster;
use serde_json::{Value, json};

use crate::shipped_manifests::files::{OPERATOR, WEBHOOKS, documents};
use crate::support::namespace;

/// What the pods of the Deployment are made from.
fn template() -> Value {
    let [deployment, _budget]: [Value; 2] = documents(OPERATOR);
    deployment["spec"]["template"].clone()
}

/// A namespace for a pod of the operator, in which the API server enforces the `restricted` standard.
async fn restricted(cluster: &Cluster) -> String {
    let namespace = namespace(cluster).await;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", &namespace, label]).unwrap();
    let account = [
        "create",
        "serviceaccount",
        "firebolt-operator",
        "--namespace",
        &namespace,
    ];
    cluster.kubectl(&account).unwrap();
    namespace
}

/// Asks the API server for a pod, without storing it.
fn dry_run(cluster: &Cluster, namespace: &str, template: &Value) -> localkube::Result<String> {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("pod");
    let create = ["create", "--dry-run=server", "--namespace", namespace, "-f", "-"];
    cluster.kubectl_with_input(&create, &pod.to_string())
}

#[tokio::test]
async fn pods_of_the_operator_pass_the_standard_restricted() {
    let cluster = Cluster::attach();
    let namespace = restricted(&cluster).await;
    dry_run(&cluster, &namespace, &template()).unwrap();

    let mut lax = template();
    lax["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refusal = dry_run(&cluster, &namespace, &lax).unwrap_err().to_string();
    assert!(refusal.contains("violates PodSecurity"), "{refusal}");
}

/// The number of the port that the container calls by this name.
fn port(template: &Value, name: &str) -> u64 {
    let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == name).unwrap();
    port["containerPort"].as_u64().unwrap()
}

#[test]
fn the_flags_are_valid_and_open_the_declared_ports() {
    let template = template();
    let container = &template["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    let line = ["firebolt-operator"]
        .into_iter()
        .chain(arguments.map(|word| word.as_str().unwrap()));
    let Command::Run(flags) = Cli::parse_from(line).command else {
        panic!("the container does not run the operator");
    };
    let addresses = [
        (flags.metrics_bind_address, "metrics"),
        (flags.health_probe_bind_address, "health"),
        (flags.webhook_bind_address, "webhook"),
    ];
    for (address, name) in addresses {
        assert_eq!(address.to_string(), format!(":{}", port(&template, name)));
    }
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "health");
    }
}

#[test]
fn the_webhook_service_selects_the_pods() {
    let [service, _validating, _mutating]: [Value; 3] = documents(WEBHOOKS);
    let template = template();
    for (label, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(&template["metadata"]["labels"][label], value);
    }
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port(&template, "webhook"));
}
