//! The documentation of the gateway: its commands work as printed, and it lists every error.

use std::collections::BTreeSet;
use std::process::Command;

use e2e::isolation::isolated;
use tokio::task::spawn_blocking;

use crate::testenv::TestEnv;
use crate::testenv::client::GATEWAY;

const MANUAL: &str = include_str!("../../../../docs/operations/gateway.md");
const SELECTION: &str = include_str!("../../../../crates/core/src/render/instance/gateway/envoy/select.lua");
const LOCAL_REPLIES: &str = include_str!("../../../../crates/core/src/render/instance/gateway/envoy/local_reply.rs");

fn commands() -> Vec<&'static str> {
    let shown = MANUAL.lines().filter_map(|line| line.strip_prefix("    "));
    shown.filter(|line| line.starts_with("curl ")).collect()
}

#[test]
fn the_documented_commands_reach_an_engine() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engine = env.engine("analytics", 11).await;
        let commands = commands();
        assert!(commands.len() > 2, "{commands:?}");
        for command in commands {
            let run = move || {
                let mut shell = Command::new("sh");
                // An error response of the gateway is no failure of curl.
                let script = command.replacen("curl ", "curl --no-progress-meter --fail-with-body ", 1);
                shell
                    .args(["-ec", &script])
                    .env("GATEWAY", format!("http://{GATEWAY}"))
                    .output()
            };
            let done = spawn_blocking(run).await.unwrap().expect("run a shell");
            assert!(done.status.success(), "{command}: {done:?}");
        }
        assert_eq!(engine.executed().len(), 2, "health needs no engine");
    });
}

/// Codes in the first or second column of a table.
fn documented() -> BTreeSet<&'static str> {
    let cells = MANUAL
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(|line| line.split('|').take(3));
    let codes = cells.filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'));
    codes
        .filter(|code| code.contains('_') && !code.contains(['.', '{']))
        .collect()
}

#[test]
fn the_documentation_lists_every_error() {
    let refusals = SELECTION.lines().filter_map(|line| line.trim().split_once(" = \"The "));
    let replies = LOCAL_REPLIES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("code: \"")?.strip_suffix("\","));
    let known: BTreeSet<&str> = refusals.map(|(code, _)| code).chain(replies).collect();
    assert!(
        known.contains("engine_missing") && known.contains("engine_unavailable"),
        "{known:?}"
    );
    let documented = documented();
    assert!(
        known.is_subset(&documented),
        "not in the handbook: {:?}",
        known.difference(&documented)
    );
}
