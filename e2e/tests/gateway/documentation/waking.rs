//! The documentation of waking: its commands work as printed, and it lists every answer and every metric.

use std::collections::BTreeSet;
use std::process::Command;

use e2e::isolation::isolated_with_api_server;
use tokio::task::spawn_blocking;

use crate::testenv::client::GATEWAY;
use crate::testenv::waking::WakingEnv;

const MANUAL: &str = include_str!("../../../../docs/operations/waking.md");
const ANSWERS: &str = include_str!("../../../../crates/wake-agent/src/hold/answer.rs");

/// The command that is printed with its output.
fn command() -> &'static str {
    let shown = MANUAL.lines().find_map(|line| line.strip_prefix("    $ curl "));
    shown.expect("a command")
}

#[test]
fn the_documented_command_wakes_an_engine_and_prints_the_stages() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("analytics").await;
        let run = || {
            let script = format!("curl --no-progress-meter {}", command());
            let mut shell = Command::new("sh");
            shell
                .args(["-ec", &script])
                .env("GATEWAY", format!("http://{GATEWAY}"))
                .output()
        };
        let shell = spawn_blocking(run);
        env.until_wake_requested("analytics").await;
        let _engine = env.starts("analytics", 11).await;
        let done = shell.await.expect("a shell").expect("run a shell");
        let response = String::from_utf8_lossy(&done.stdout).to_lowercase();
        assert!(response.starts_with("http/1.1 200 ok"), "{response}");
        assert!(response.contains("\nserver-timing: detected;dur="), "{response}");
    });
}

#[test]
fn the_documentation_lists_every_answer_of_the_agent() {
    let codes = ANSWERS
        .lines()
        .filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","));
    // An invalid name is refused by the selection, before the agent is called.
    let codes = codes.filter(|code| !code.contains(' ') && *code != "engine_malformed");
    let codes: BTreeSet<&str> = codes.collect();
    assert!(codes.contains("engine_not_found") && codes.len() > 4, "{codes:?}");
    let missing: Vec<_> = codes
        .iter()
        .filter(|code| !MANUAL.contains(&format!("`{code}`")))
        .collect();
    assert!(missing.is_empty(), "not in the handbook: {missing:?}");
}

#[test]
fn the_documentation_lists_every_metric_of_the_agent() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        let metrics = env.agent.metrics().await;
        let families = metrics
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE firebolt_gateway_wake_"));
        let families: Vec<&str> = families.filter_map(|line| line.split(' ').next()).collect();
        assert!(families.len() > 6, "{metrics}");
        let missing = families
            .iter()
            .filter(|family| !MANUAL.contains(&format!("`firebolt_gateway_wake_{family}")));
        let missing: Vec<_> = missing.collect();
        assert!(missing.is_empty(), "not in the handbook: {missing:?}");
    });
}
