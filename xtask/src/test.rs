//! `cargo xtask test`: the tiers of tests, each with what it needs.
//!
//! The name of an integration test says its tier: `tests/api*` needs a real API server, `tests/gateway*` and
//! `tests/envoy*` need that and the real Envoy, `tests/e2e*` need a whole cluster, any other needs nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Subcommand;
use localkube::{ATTACH_VARIABLE, Cluster, Options};
use serde_json::Value;

use crate::{Outcome, images, install};

const API: &str = "api";
const GATEWAY: &str = "gateway";
const ENVOY: &str = "envoy";
const E2E: &str = "e2e";
/// Tests of the API tier wait for others most of the time, so more of them run than there are cores.
const API_THREADS: &str = "4";
/// Tests of the gateway tier wait as well, for timers and name servers.
const GATEWAY_THREADS: &str = "4";
/// Tests with a whole cluster wait for pods. Those that disturb the cluster itself run alone.
const E2E_PROGRAMS: [(&str, &str); 2] = [("e2e", "4"), ("e2e_disruptive", "1")];
/// Those that start clusters of their own, as people do, one after the other.
const E2E_WITH_THEIR_OWN: [&str; 2] = ["e2e_node", "e2e_demo"];

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
    /// Integration tests called gateway… or envoy…, with the real Envoy and a real API server
    Gateway {
        /// Passed on to the test programs
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Integration tests called e2e…, on a whole cluster: their own, or that which is attached to
    E2e {
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
        Tier::E2e { arguments } => e2e(&arguments),
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
    let tests = ["--test", "gateway*", "--test", "envoy*"];
    // With a test among them, crates have the features that tests are compiled with.
    let mut agent = crate::cargo(&crate::root());
    agent.args([
        "build",
        "--workspace",
        "--locked",
        "--bin=firebolt-wake-agent",
        "--test=program",
    ]);
    if !agent.status()?.success() || !cargo_test().args(tests).arg("--no-run").status()?.success() {
        return Ok(ExitCode::FAILURE);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let cluster = match std::env::var_os(ATTACH_VARIABLE) {
        Some(dir) => Cluster::open(Path::new(&dir))?,
        None => runtime.block_on(Cluster::start(Options::default()))?,
    };
    install::definitions(&crate::root(), &cluster)?;
    crate::finish(
        cargo_test()
            .args(tests)
            .arg("--")
            .args(arguments)
            .env(ATTACH_VARIABLE, cluster.dir())
            .env("RUST_TEST_THREADS", GATEWAY_THREADS),
    )
}

fn e2e(arguments: &[String]) -> Outcome {
    // Before minutes go into the programs.
    with_a_node().check()?;
    let programs = compiled(&["--test", "e2e*"])?;
    let runtime = tokio::runtime::Runtime::new()?;
    let cluster = match std::env::var_os(ATTACH_VARIABLE) {
        Some(dir) => Cluster::open(Path::new(&dir))?,
        None => runtime.block_on(whole_cluster())?,
    };
    for (name, threads) in E2E_PROGRAMS {
        let program = programs.get(name);
        let program = program.ok_or_else(|| format!("find the test program {name}"))?;
        // In the network of the cluster, pods and Services are reached by their addresses.
        let status = cluster
            .inside(program)?
            .args(arguments)
            .current_dir(crate::root().join("e2e"))
            .env(ATTACH_VARIABLE, cluster.dir())
            .env("RUST_TEST_THREADS", threads)
            .status()?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    // What follows has the machine for itself.
    drop(cluster);
    for name in E2E_WITH_THEIR_OWN {
        let program = programs.get(name);
        let program = program.ok_or_else(|| format!("find the test program {name}"))?;
        let folder = crate::root().join("xtask");
        if !Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .status()?
            .success()
        {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a cluster that has all that tests need: a node, the images, the operator.
pub(crate) async fn whole_cluster() -> Result<Cluster, Box<dyn Error>> {
    let root = crate::root();
    let archives = images::build(&root)?;
    let started = Instant::now();
    let cluster = Cluster::start(with_a_node()).await?;
    tell("cluster", "with a node is ready", started);
    images::import(&cluster, &archives)?;
    let started = Instant::now();
    install::operator(&root, &cluster)?;
    tell("operator", "is ready, and its webhooks are trusted", started);
    Ok(cluster)
}

fn with_a_node() -> Options {
    Options {
        nodes: 1,
        ..Options::default()
    }
}

fn tell(subject: &str, news: &str, since: Instant) {
    println!("{subject:<10} {news}, {:.1} s", since.elapsed().as_secs_f64());
}

/// Compiles integration tests, and returns their programs by name.
fn compiled(tests: &[&str]) -> Result<BTreeMap<String, PathBuf>, Box<dyn Error>> {
    let mut command = cargo_test();
    command
        .args(tests)
        .args(["--no-run", "--message-format=json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("compile the tests".into());
    }
    let mut programs = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let (name, program) = (message["target"]["name"].as_str(), message["executable"].as_str());
        if let (Some(name), Some(program), true) = (name, program, message["profile"]["test"] == true) {
            programs.insert(name.to_owned(), PathBuf::from(program));
        }
    }
    Ok(programs)
}

/// Whether an integration test belongs to another tier than that which needs nothing.
fn needs_more(test: &str) -> bool {
    [API, GATEWAY, ENVOY, E2E].iter().any(|tier| test.starts_with(tier))
}

fn cargo_test() -> Command {
    let mut command = crate::cargo(&crate::root());
    command.args(["test", "--workspace", "--locked"]);
    command
}

/// The names of all integration tests of the workspace.
fn integration_tests() -> Result<Vec<String>, Box<dyn Error>> {
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
