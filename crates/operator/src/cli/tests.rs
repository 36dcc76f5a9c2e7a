use std::collections::BTreeSet;
use std::time::Duration;

use clap::CommandFactory;
use clap::error::ErrorKind;
use rstest::rstest;

use super::*;
use crate::settings::{Certificates, Environment, Scope, Settings};

const HANDBOOK: &str = include_str!("../../../../docs/operations/running.md");

fn parse(arguments: &[&str]) -> Result<RunArguments, clap::Error> {
    let all = ["firebolt-operator", "run"].iter().chain(arguments);
    match Cli::try_parse_from(all)?.command {
        Command::Run(arguments) => Ok(*arguments),
        Command::Crds => panic!("parsed as another command"),
    }
}

/// The settings of a process with these flags.
pub(crate) fn settings(arguments: &[&str]) -> Settings {
    let environment = Environment {
        namespace: "from-context".into(),
        host_name: "operator-7d9f".into(),
        nonce: 0xab,
    };
    parse(arguments).unwrap().into_settings(environment)
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_need_no_flag() {
    let settings = settings(&[]);
    assert_eq!(settings.scope, Scope::Cluster);
    assert_eq!(settings.selector.to_parameter(), None);
    assert_eq!(settings.defaults.cluster_domain, "cluster.local");
    assert_eq!(settings.workers, 8);
    assert_eq!(settings.identity, "operator-7d9f-000000ab");
    let lease = settings.lease.unwrap();
    assert_eq!(
        (lease.namespace.as_str(), lease.name.as_str()),
        ("from-context", "firebolt-operator")
    );
    assert_eq!(lease.duration, Duration::from_secs(15));
    assert_eq!(settings.shutdown_timeout, Duration::from_secs(10));
}

#[test]
fn the_default_gateway_is_the_one_that_tests_run() {
    let version = localkube::tools::Tool::Envoy.version();
    assert_eq!(
        settings(&[]).defaults.envoy_image,
        format!("envoyproxy/envoy:v{version}")
    );
}

/// A new text here makes the pods of every gateway outdated at the next upgrade. Change it when the agent has changed, and
/// not with the version of the operator.
#[test]
fn the_default_agent_is_the_same_in_every_version_of_the_operator() {
    let image = settings(&[]).defaults.wake_agent_image;
    assert_eq!(image, "ghcr.io/firebolt-db/firebolt-wake-agent:0.1.0");
}

#[test]
fn every_image_comes_from_the_registry_that_is_named() {
    let defaults = settings(&["--image-registry", "mirror.example/m"]).defaults;
    let images = [
        defaults.engine_image,
        defaults.ui_image,
        defaults.metadata_image,
        defaults.postgres_image,
        defaults.envoy_image,
        defaults.wake_agent_image,
    ];
    for image in images {
        assert!(image.starts_with("mirror.example/m/"), "{image}");
        assert!(!image.contains("ghcr.io"), "{image}");
    }
}

#[test]
fn flags_win_over_the_surroundings() {
    let settings = settings(&[
        "--identity",
        "me",
        "--lease-namespace",
        "elsewhere",
        "--lease-duration",
        "1m",
    ]);
    assert_eq!(settings.identity, "me");
    let lease = settings.lease.unwrap();
    assert_eq!(
        (lease.namespace.as_str(), lease.duration),
        ("elsewhere", Duration::from_mins(1))
    );
}

#[rstest]
#[case::default(&[], 600)]
#[case::off(&["--lost-pod-timeout=0s"], 0)]
fn lost_pods_are_waited_for_as_long_as_the_flag_says(#[case] arguments: &[&str], #[case] seconds: u64) {
    assert_eq!(settings(arguments).lost_pod_timeout, Duration::from_secs(seconds));
}

#[rstest]
#[case::bare("--leader-elect", true)]
#[case::on("--leader-elect=true", true)]
#[case::off("--leader-elect=false", false)]
fn leader_election_can_be_turned_off(#[case] flag: &str, #[case] elects: bool) {
    assert_eq!(settings(&[flag]).lease.is_some(), elects);
}

#[rstest]
#[case("--namespaces", ",,", "the list names no namespace")]
#[case("--namespaces", "a,B_", "\"B_\" is not a namespace name")]
#[case("--watch-label-selector", "team in (a", "\"team in (a\" is not a label requirement")]
#[case("--watch-label-selector", " ", "\"\" is not a label requirement")]
#[case("--cluster-domain", "cluster..local", "\"cluster..local\" is not a DNS name")]
#[case("--workers", "0", "0 is not in 1..=1024")]
#[case("--metrics-bind-address", "8080", "\"8080\" is not an address to listen on")]
#[case("--health-probe-bind-address", "nope", "\"nope\" is not an address to listen on")]
#[case("--lease-name", "Not_A_Name", "\"Not_A_Name\" is not an object name")]
#[case("--lease-namespace", "a.b", "\"a.b\" is not a namespace name")]
#[case("--lease-duration", "1s", "\"1s\" is out of range: use whole seconds, from 2s to 1h")]
#[case("--lease-duration", "2500ms", "\"2500ms\" is out of range")]
#[case("--lease-duration", "15", "\"15\" is not a duration")]
#[case("--lost-pod-timeout", "10", "\"10\" is not a duration")]
#[case("--shutdown-timeout", "soon", "\"soon\" is not a duration")]
#[case(
    "--shutdown-timeout",
    "0s",
    "\"0s\" leaves no time to stop: use more than zero, as in 10s"
)]
#[case("--engine-max-cpu", "lots", "\"lots\" is not a quantity")]
#[case("--engine-max-memory", "1.5.2Gi", "\"1.5.2Gi\" is not a quantity")]
#[case("--engine-max-ephemeral-storage", "10 Ti", "\"10 Ti\" is not a quantity")]
#[case("--webhook-bind-address", "9443", "\"9443\" is not an address to listen on")]
#[case("--webhook-hosts", "10.0.0.1,a:1", "\"a:1\" is neither a DNS name nor an IP address")]
#[case("--webhook-cert-validity", "5s", "\"5s\" is out of range: use 6s to 87600h")]
#[case("--log-format", "xml", "[possible values: text, json]")]
#[case("--log-level", "info,x=loud", "\"info,x=loud\" is not a log filter")]
fn an_unusable_value_is_refused_with_the_flag_and_the_reason(
    #[case] flag: &str,
    #[case] value: &str,
    #[case] reason: &str,
) {
    let error = parse(&[flag, value]).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.exit_code(), 2);
    assert!(text.contains(flag), "{text}");
    assert!(text.contains(reason), "{text}");
}

#[test]
fn an_empty_list_of_namespaces_means_all() {
    assert_eq!(settings(&["--namespaces", ""]).scope, Scope::Cluster);
}

#[test]
fn of_a_flag_given_twice_the_last_one_counts() {
    assert_eq!(settings(&["--workers=1", "--workers=2"]).workers, 2);
}

#[test]
fn an_unknown_flag_is_refused() {
    assert_eq!(
        parse(&["--namespace", "a"]).unwrap_err().kind(),
        ErrorKind::UnknownArgument
    );
}

fn flags() -> BTreeSet<(String, String)> {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    run.get_arguments()
        .filter_map(|argument| {
            let environment = argument.get_env().unwrap_or_default().to_string_lossy().into_owned();
            Some((argument.get_long()?.to_owned(), environment))
        })
        .collect()
}

#[test]
fn each_flag_has_the_environment_variable_of_its_name() {
    for (flag, environment) in flags() {
        assert_eq!(
            environment,
            format!("FIREBOLT_OPERATOR_{}", flag.replace('-', "_").to_uppercase())
        );
    }
}

#[test]
fn the_handbook_names_each_flag_and_no_other() {
    let documented: BTreeSet<_> = HANDBOOK
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| `--")?
                .split(['`', ' ', '='])
                .next()
                .map(str::to_owned)
        })
        .collect();
    let known: BTreeSet<_> = flags().into_iter().map(|(flag, _)| flag).collect();
    assert_eq!(documented, known);
}

#[rstest]
#[case::of_the_service(&[], Some(&["firebolt-operator-webhook.from-context.svc.cluster.local", "firebolt-operator-webhook.from-context.svc"][..]))]
#[case::explicit(&["--webhook-hosts=10.0.0.1,a.b"], Some(&["10.0.0.1", "a.b"][..]))]
#[case::off(&["--webhook-bind-address=0"], None)]
fn certificates_are_for_what_the_api_server_calls_the_webhook(#[case] flags: &[&str], #[case] hosts: Option<&[&str]>) {
    let own = settings(flags).certificates.map(|certificates| match certificates {
        Certificates::Own(own) => own.hosts,
        Certificates::Supplied(folder) => panic!("no flag supplied {}", folder.display()),
    });
    assert_eq!(
        own,
        hosts.map(|hosts| hosts.iter().map(|host| (*host).to_owned()).collect())
    );
}
