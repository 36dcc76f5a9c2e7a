//! `cargo xtask test`: the tiers of tests, each with what it needs.
//!
//! The name of an integration test says its tier: `tests/api*` needs a real API server, `tests/gateway*` and
//! `tests/envoy*` need the real Envoy, any other needs nothing.

use std::process::{Command, ExitCode};

use clap::Subcommand;
use localkube::{ATTACH_VARIABLE, Cluster, Options};

use crate::Outcome;

const API: &str = "api";
const GATEWAY: &str = "gateway";
const ENVOY: &str = "envoy";
/// Tests of the API tier wait for others most of the time, so more of them run than there are cores.
const API_THREADS: &str = "4";
/// Tests of the gateway tier wait as well, for timers and name servers.
const GATEWAY_THREADS: &str = "4";

#[derive(Subcommand)]
pub(crate) enum Tier {
    /// Everything that needs no cluster
    Unit {
        /// Passed on to the test programs
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Integration tests called api…, against a real API server
    Api {
        /// Passed on to the test programs
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Integration tests called gateway… or envoy…, with the real Envoy
    Gateway {
        /// Passed on to the test programs
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

pub(crate) fn run(tier: Tier) -> Outcome {
    match tier {
        Tier::Unit { arguments } => unit(&arguments),
        Tier::Api { arguments } => api(&arguments),
        Tier::Gateway { arguments } => gateway(&arguments),
    }
}

fn unit(arguments: &[String]) -> Outcome {
    let mut command = cargo_test();
    command.args(["--lib", "--bins"]);
    let tests = integration_tests()?;
    for name in tests.iter().filter(|name| !needs_more(name)) {
        command.args(["--test", name]);
    }
    crate::finish(command.arg("--").args(arguments))
}

fn api(arguments: &[String]) -> Outcome {
    let tests = ["--test", "api*"];
    // Compiled first: the machine is busy enough then, and a mistake shows before a cluster is started.
    if !cargo_test().args(tests).arg("--no-run").status()?.success() {
        return Ok(ExitCode::FAILURE);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let cluster = runtime.block_on(Cluster::start(Options::default()))?;
    crate::finish(
        cargo_test()
            .args(tests)
            .arg("--")
            .args(arguments)
            .env(ATTACH_VARIABLE, cluster.dir())
            .env("RUST_TEST_THREADS", API_THREADS),
    )
}

fn gateway(arguments: &[String]) -> Outcome {
    crate::finish(
        cargo_test()
            .args(["--test", "gateway*", "--test", "envoy*", "--"])
            .args(arguments)
            .env("RUST_TEST_THREADS", GATEWAY_THREADS),
    )
}

/// Whether an integration test belongs to another tier than that which needs nothing.
fn needs_more(test: &str) -> bool {
    [API, GATEWAY, ENVOY].iter().any(|tier| test.starts_with(tier))
}

fn cargo_test() -> Command {
    let mut command = crate::cargo(&crate::root());
    command.args(["test", "--workspace", "--locked"]);
    command
}

/// The names of all integration tests of the workspace.
fn integration_tests() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let packages = crate::packages(&crate::root())?;
    let targets = packages
        .iter()
        .filter_map(|package| package["targets"].as_array())
        .flatten();
    let tests = targets.filter(|target| target["kind"][0] == "test");
    Ok(tests
        .filter_map(|target| target["name"].as_str())
        .map(str::to_owned)
        .collect())
}
