//! The binary as a user meets it, without a cluster: help, versions, exit codes and messages.

use std::process::{Command, Output};

use rstest::rstest;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firebolt-operator"))
        .args(arguments)
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const QUIET: [&str; 4] = [
    "run",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--webhook-bind-address=0",
];

#[test]
fn help_lists_the_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output.stdout).contains("3  lost the lease"),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn version_is_one_line() {
    assert_eq!(
        text(&run(&["--version"]).stdout),
        format!("firebolt-operator {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[rstest]
#[case::no_namespace(&["--namespaces=,,"], "--namespaces")]
#[case::bad_selector(&["--watch-label-selector=a in ("], "--watch-label-selector")]
#[case::unknown(&["--namespace=a"], "--namespace")]
fn a_bad_flag_ends_with_code_2_and_its_name(#[case] flags: &[&str], #[case] expected: &str) {
    let output = run(&[&QUIET[..], flags].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
}

#[test]
fn an_environment_variable_sets_its_flag() {
    let output = Command::new(env!("CARGO_BIN_EXE_firebolt-operator"))
        .args(QUIET)
        .env("FIREBOLT_OPERATOR_NAMESPACES", "not_a_name")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("\"not_a_name\" is not a namespace name"),
        "{}",
        text(&output.stderr)
    );
}

#[rstest]
#[case::no_such_file(&["--kubeconfig=/does/not/exist"], "cannot read kubeconfig /does/not/exist", "--kubeconfig names")]
#[case::no_cluster_at_all(&[], "cannot find a cluster", "Name a kubeconfig with --kubeconfig")]
#[case::no_such_context(&["--context=nowhere"], "cannot use context nowhere", "name one with --context")]
fn a_failed_start_ends_with_code_1_and_the_remedy(#[case] flags: &[&str], #[case] problem: &str, #[case] remedy: &str) {
    let output = run(&[&QUIET[..], flags].concat());
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains(problem) && log.contains(remedy), "{log}");
}

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let kubeconfig = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unreachable.yaml");
    // Port 1 is reserved and refuses connections.
    let content = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \
                   'http://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n";
    std::fs::write(&kubeconfig, content).unwrap();
    let output = run(&[&QUIET[..], &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat());
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains("cannot reach the API server at http://127.0.0.1:1"),
        "{log}"
    );
    assert!(log.contains("Connection refused"), "{log}");
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&[
        "run",
        "--metrics-bind-address=0",
        "--health-probe-bind-address",
        &address,
    ]);
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains(&format!("cannot listen on {address} for --health-probe-bind-address")),
        "{log}"
    );
}

#[test]
fn crds_prints_three_documents() {
    let output = run(&["crds"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    let documents: Vec<_> = printed.split("---\n").filter(|document| !document.is_empty()).collect();
    assert_eq!(documents.len(), 3);
    assert!(
        documents
            .iter()
            .all(|document| document.contains("\nkind: CustomResourceDefinition\n")),
        "{printed}"
    );
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let command = format!(
        "{} crds | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_firebolt-operator")
    );
    assert_eq!(
        Command::new("bash").args(["-c", &command]).status().unwrap().code(),
        Some(0)
    );
}
