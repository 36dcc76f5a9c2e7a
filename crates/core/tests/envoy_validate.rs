//! What we render against the real Envoy: it accepts every configuration, and finds nothing outdated in it.

use std::fs;
use std::process::Command;

use firebolt_core::render::instance::gateway::envoy::{Envoy, bootstrap};
use localkube::tools::{Binary, Tools};
use rstest::rstest;

/// Whether Envoy accepts a configuration, and what it says about it.
fn validate(configuration: &str) -> (bool, String) {
    let folder = tempfile::tempdir().expect("create a folder");
    let file = folder.path().join("envoy.yaml");
    fs::write(&file, configuration).expect("write the configuration");
    let binary = Tools::from_env().and_then(|tools| tools.binary(Binary::Envoy));
    let output = Command::new(binary.expect("find Envoy"))
        .args(["--mode", "validate", "-c"])
        .arg(&file)
        .output()
        .expect("run Envoy");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), log)
}

fn rendered(namespace: &str, cluster_domain: &str, metrics_port: u16, ipv6: bool) -> String {
    firebolt_api::to_yaml(&bootstrap(&Envoy {
        namespace,
        cluster_domain,
        metrics_port,
        ipv6,
        hold_timeout: std::time::Duration::from_mins(2),
    }))
}

#[rstest]
#[case::bare("data", "cluster.local", 9090)]
#[case::lowest_port("data", "cluster.local", 1)]
#[case::highest_port("data", "cluster.local", 65535)]
#[case::digits("1", "k8s.2.example", 9090)]
#[case::a_word_that_yaml_knows("true", "null", 9090)]
#[case::long(
    "n23456789012345678901234567890123456789012345678901234567890123",
    "a.long.domain.example.com",
    9090
)]
fn envoy_accepts_the_configuration_of_every_gateway(
    #[case] namespace: &str,
    #[case] cluster_domain: &str,
    #[case] metrics_port: u16,
    #[values(false, true)] ipv6: bool,
) {
    let (accepted, log) = validate(&rendered(namespace, cluster_domain, metrics_port, ipv6));
    assert!(accepted, "{log}");
    assert!(!log.contains("[warning]") && !log.contains("[error]"), "{log}");
}

#[rstest]
#[case::an_unknown_field("ignore_health_on_host_removal", "ignore_health_on_host_renewal")]
#[case::an_unknown_extension("previous_hosts.v3", "previous_hosts.v9")]
#[case::an_unknown_flag("UH", "XX")]
#[case::a_script_that_does_not_parse("function envoy_on_request", "function function envoy_on_request")]
fn envoy_rejects_a_configuration_with_a_mistake(#[case] right: &str, #[case] wrong: &str) {
    let configuration = rendered("data", "cluster.local", 9090, false);
    assert!(configuration.contains(right));
    let (accepted, log) = validate(&configuration.replace(right, wrong));
    assert!(!accepted, "{log}");
}
