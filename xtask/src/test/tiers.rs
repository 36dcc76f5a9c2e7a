//! What each tier consists of, and the surroundings that it runs in.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use clap::ValueEnum;
use localkube::{ATTACH_VARIABLE, Cluster, Options};
use serde_json::Value;

use super::program::{self, Run, TestProgram};
use crate::{images, install};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const API: &str = "api";
const GATEWAY: &str = "gateway";
const ENVOY: &str = "envoy";
const E2E: &str = "e2e";
/// Tests of the API tier wait for others most of the time, so more of them run than there are cores.
const API_THREADS: usize = 10;
/// Tests of the gateway tier wait as well, for timers and name servers.
const GATEWAY_THREADS: usize = 4;
/// Tests with a whole cluster wait for pods. Those that disturb the cluster itself run alone.
const E2E_PROGRAMS: [(&str, usize); 2] = [("e2e", 8), ("e2e_disruptive", 1)];
/// Those that start clusters of their own, as people do, one after the other.
const E2E_WITH_THEIR_OWN: [&str; 2] = ["e2e_node", "e2e_demo"];

/// A tier of tests.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Tier {
    /// Everything that needs no cluster
    Unit,
    /// Integration tests called api…, against a real API server
    Api,
    /// Integration tests called gateway… or envoy…, with the real Envoy and a real API server
    Gateway,
    /// Integration tests called e2e…, on a whole cluster: their own, or that which is attached to
    E2e,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "unit",
            Self::Api => API,
            Self::Gateway => GATEWAY,
            Self::E2e => E2E,
        })
    }
}

/// Compiles the programs of a tier. The machine is busy enough then, and a mistake shows before a cluster is started.
pub(super) fn compile(tier: Tier) -> Result<Vec<TestProgram>> {
    let selected: Vec<String> = match tier {
        Tier::Unit => {
            let tests = integration_tests()?.into_iter().filter(|name| !needs_more(name));
            let tests = tests.flat_map(|name| ["--test".to_owned(), name]);
            ["--lib".to_owned(), "--bins".to_owned()]
                .into_iter()
                .chain(tests)
                .collect()
        }
        Tier::Api => vec![format!("--test={API}*")],
        Tier::Gateway => {
            build_agent()?;
            vec![format!("--test={GATEWAY}*"), format!("--test={ENVOY}*")]
        }
        Tier::E2e => {
            // Before minutes go into the programs.
            with_a_node().check()?;
            vec![format!("--test={E2E}*")]
        }
    };
    let mut command = crate::cargo(&crate::root());
    command.args(["test", "--workspace", "--locked", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").args(selected);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("compile the tests of the tier {tier}").into());
    }
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        programs.extend(TestProgram::of_message(&message));
    }
    programs.sort_by(|a, b| a.label.cmp(&b.label));
    Ok(programs)
}

/// Builds the wake agent, which tests of the gateway start beside Envoy.
fn build_agent() -> Result<()> {
    let mut agent = crate::cargo(&crate::root());
    agent
        .args(["build", "--workspace", "--locked", "--bin=firebolt-wake-agent"])
        .args(crate::AS_TESTS);
    if !agent.status()?.success() {
        return Err("build the wake agent".into());
    }
    Ok(())
}

/// Runs all programs of a tier, those after a failure too.
pub(super) fn run(tier: Tier, programs: &[TestProgram], arguments: &[String]) -> Result<Vec<Run>> {
    let runtime = tokio::runtime::Runtime::new()?;
    match tier {
        Tier::Unit => {
            let threads = std::thread::available_parallelism()?.get();
            each(programs, |it| run_one(it, None, threads, arguments))
        }
        Tier::Api => {
            let cluster = runtime.block_on(Cluster::start(Options::default()))?;
            each(programs, |it| run_one(it, Some(&cluster), API_THREADS, arguments))
        }
        Tier::Gateway => {
            let cluster = match std::env::var_os(ATTACH_VARIABLE) {
                Some(dir) => Cluster::open(Path::new(&dir))?,
                None => runtime.block_on(Cluster::start(Options::default()))?,
            };
            install::definitions(&crate::root(), &cluster)?;
            each(programs, |it| run_one(it, Some(&cluster), GATEWAY_THREADS, arguments))
        }
        Tier::E2e => {
            let cluster = match std::env::var_os(ATTACH_VARIABLE) {
                Some(dir) => Cluster::open(Path::new(&dir))?,
                None => runtime.block_on(whole_cluster())?,
            };
            // Both wait for pods most of the time. The shared cluster ends after them: those that start clusters of their
            // own compare the interfaces of this machine before and after.
            std::thread::scope(|scope| {
                let others = scope.spawn(|| with_their_own(programs, arguments).map_err(|error| error.to_string()));
                let mut runs = on_cluster(&cluster, programs, arguments)?;
                let (others, printed) = others.join().expect("it does not panic")?;
                io::stdout().write_all(&printed)?;
                runs.extend(others);
                Ok(runs)
            })
        }
    }
}

/// Runs the programs that share a whole cluster, one after the other.
fn on_cluster(cluster: &Cluster, programs: &[TestProgram], arguments: &[String]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for (name, threads) in E2E_PROGRAMS {
        let program = find(programs, name)?;
        // In the network of the cluster, pods and Services are reached by their addresses.
        let mut command = cluster.inside(&program.path)?;
        program.prepare(&mut command);
        command.env(ATTACH_VARIABLE, cluster.dir());
        runs.push(program::run(
            program,
            &mut command,
            threads,
            arguments,
            &mut io::stdout(),
        )?);
    }
    Ok(runs)
}

/// Runs the programs that start whole clusters of their own, one after the other, and returns what they print.
fn with_their_own(programs: &[TestProgram], arguments: &[String]) -> Result<(Vec<Run>, Vec<u8>)> {
    let mut runs = Vec::new();
    let mut printed = Vec::new();
    for name in E2E_WITH_THEIR_OWN {
        let program = find(programs, name)?;
        runs.push(program::run(
            program,
            &mut program.command(),
            1,
            arguments,
            &mut printed,
        )?);
    }
    Ok((runs, printed))
}

fn each(programs: &[TestProgram], run: impl Fn(&TestProgram) -> Result<Run>) -> Result<Vec<Run>> {
    programs.iter().map(run).collect()
}

fn run_one(program: &TestProgram, cluster: Option<&Cluster>, threads: usize, arguments: &[String]) -> Result<Run> {
    let mut command = program.command();
    if let Some(cluster) = cluster {
        command.env(ATTACH_VARIABLE, cluster.dir());
    }
    Ok(program::run(
        program,
        &mut command,
        threads,
        arguments,
        &mut io::stdout(),
    )?)
}

fn find<'programs>(programs: &'programs [TestProgram], name: &str) -> Result<&'programs TestProgram> {
    let program = programs.iter().find(|program| program.name == name);
    Ok(program.ok_or_else(|| format!("find the test program {name}"))?)
}

/// Starts a cluster that has all that tests need: a node, the images, the operator.
pub(crate) async fn whole_cluster() -> Result<Cluster> {
    let root = crate::root();
    let archives = images::build(&root)?;
    let started = Instant::now();
    let cluster = Cluster::start(with_a_node()).await?;
    report("cluster", "with a node is ready", started);
    images::import(&cluster, &archives)?;
    let started = Instant::now();
    install::operator(&root, &cluster)?;
    report("operator", "is ready, and its webhooks are trusted", started);
    Ok(cluster)
}

fn with_a_node() -> Options {
    Options {
        nodes: 1,
        ..Options::default()
    }
}

fn report(subject: &str, news: &str, since: Instant) {
    println!("{subject:<10} {news}, {:.1} s", since.elapsed().as_secs_f64());
}

/// Whether an integration test belongs to another tier than that which needs nothing.
fn needs_more(test: &str) -> bool {
    [API, GATEWAY, ENVOY, E2E].iter().any(|tier| test.starts_with(tier))
}

/// The names of all integration tests of the workspace.
fn integration_tests() -> Result<Vec<String>> {
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
