//! What each tier consists of, and the surroundings that it runs in.

use std::env;
use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;
use localkube::{ATTACH_VARIABLE, Cluster, Options};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::program::{self, Run, TestProgram};
use crate::{images, install};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const API: &str = "api";
const GATEWAY: &str = "gateway";
const ENVOY: &str = "envoy";
const E2E: &str = "e2e";
/// Tests of the API tier wait for others most of the time, so more of them run than there are cores.
const API_THREADS: usize = 10;
/// The program whose tests start control planes of their own, and how many of them run at the same time: more would take the
/// processors from the tests of the operator in the other lane, some of which depend on the timing of leases and certificates.
const API_WITH_THEIR_OWN: (&str, usize) = ("api_localkube", 3);
/// Tests of the gateway tier wait as well, for timers and name servers.
const GATEWAY_THREADS: usize = 4;
/// The crate whose tests take longest.
const OPERATOR: &str = "operator ";
/// Tests with a whole cluster wait for pods. Those that disturb the cluster itself run alone, in a cluster of their own unless
/// the tests are attached to one.
const E2E_PROGRAMS: [(&str, usize); 2] = [("e2e", 6), ("e2e_disruptive", 1)];
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
    let runtime = Runtime::new()?;
    match tier {
        Tier::Unit => {
            let threads = thread::available_parallelism()?.get();
            let jobs = programs.iter().map(|program| Job::new(program, threads));
            side_by_side(beside_the_operator(jobs), arguments)
        }
        Tier::Api => {
            let cluster = runtime.block_on(Cluster::start(Options::default()))?;
            let jobs = programs.iter().map(|program| Job::new(program, api_threads(program)));
            side_by_side(
                beside_the_operator(jobs.map(|job| job.attached_to(&cluster))),
                arguments,
            )
        }
        Tier::Gateway => {
            let cluster = match env::var_os(ATTACH_VARIABLE) {
                Some(dir) => Cluster::open(Path::new(&dir))?,
                None => runtime.block_on(Cluster::start(Options::default()))?,
            };
            install::definitions(&crate::root(), &cluster)?;
            let jobs = programs.iter().map(|program| Job::new(program, GATEWAY_THREADS));
            side_by_side([jobs.map(|job| job.attached_to(&cluster)).collect()], arguments)
        }
        Tier::E2e => {
            let clusters = match env::var_os(ATTACH_VARIABLE) {
                Some(dir) => vec![Cluster::open(Path::new(&dir))?],
                None => whole_clusters(&runtime, E2E_PROGRAMS.len())?,
            };
            let others = E2E_WITH_THEIR_OWN
                .iter()
                .map(|name| Ok(Job::new(find(programs, name)?, 1)));
            let mut lanes: Vec<Vec<Job<'_>>> = clusters.iter().map(|_| Vec::new()).collect();
            for (position, (name, threads)) in E2E_PROGRAMS.into_iter().enumerate() {
                let place = position % clusters.len();
                lanes[place].push(Job::new(find(programs, name)?, threads).inside(&clusters[place])?);
            }
            lanes.push(others.collect::<Result<_>>()?);
            // The clusters end after them: those that start clusters of their own compare the interfaces of this machine
            // before and after.
            side_by_side(lanes, arguments)
        }
    }
}

/// How many tests of a program of the API tier run at the same time.
fn api_threads(program: &TestProgram) -> usize {
    let (with_their_own, threads) = API_WITH_THEIR_OWN;
    if program.name == with_their_own {
        threads
    } else {
        API_THREADS
    }
}

/// A program that is ready to run.
struct Job<'tier> {
    program: &'tier TestProgram,
    command: Command,
    threads: usize,
}

impl<'tier> Job<'tier> {
    fn new(program: &'tier TestProgram, threads: usize) -> Self {
        Self {
            program,
            command: program.command(),
            threads,
        }
    }

    /// Lets it use a cluster.
    fn attached_to(mut self, cluster: &Cluster) -> Self {
        self.command.env(ATTACH_VARIABLE, cluster.dir());
        self
    }

    /// Runs it in the network of a cluster, where pods and Services are reached by their addresses.
    fn inside(mut self, cluster: &Cluster) -> Result<Self> {
        self.command = cluster.inside(&self.program.path)?;
        self.program.prepare(&mut self.command);
        Ok(self.attached_to(cluster))
    }

    fn run(mut self, arguments: &[String], out: &mut impl io::Write) -> io::Result<Run> {
        program::run(self.program, &mut self.command, self.threads, arguments, out)
    }
}

/// Two lanes: the tests of the operator take as long as all others.
fn beside_the_operator<'tier>(jobs: impl Iterator<Item = Job<'tier>>) -> [Vec<Job<'tier>>; 2] {
    let (operator, others) = jobs.partition(|job| job.program.label.starts_with(OPERATOR));
    [operator, others]
}

/// Runs the lanes at the same time, the programs of each one after the other. What the first prints is seen at once, what the
/// others print when all have ended.
fn side_by_side<'tier>(lanes: impl IntoIterator<Item = Vec<Job<'tier>>>, arguments: &[String]) -> Result<Vec<Run>> {
    let mut lanes = lanes.into_iter();
    let first = lanes.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> = lanes
            .map(|lane| {
                scope.spawn(move || {
                    let mut printed = Vec::new();
                    let runs = one_after_the_other(lane, arguments, &mut printed)?;
                    io::Result::Ok((runs, printed))
                })
            })
            .collect();
        let mut runs = one_after_the_other(first, arguments, &mut io::stdout())?;
        for lane in others {
            let (ended, printed) = lane.join().expect("it does not panic")?;
            io::stdout().write_all(&printed)?;
            runs.extend(ended);
        }
        Ok(runs)
    })
}

fn one_after_the_other(lane: Vec<Job<'_>>, arguments: &[String], out: &mut impl io::Write) -> io::Result<Vec<Run>> {
    lane.into_iter().map(|job| job.run(arguments, out)).collect()
}

fn find<'programs>(programs: &'programs [TestProgram], name: &str) -> Result<&'programs TestProgram> {
    let program = programs.iter().find(|program| program.name == name);
    Ok(program.ok_or_else(|| format!("find the test program {name}"))?)
}

/// Starts a cluster that has all that tests need: a node, the images, the operator.
pub(crate) async fn whole_cluster() -> Result<Cluster> {
    install_all(&images::build(&crate::root())?).await
}

/// Starts several of them at the same time.
fn whole_clusters(runtime: &Runtime, count: usize) -> Result<Vec<Cluster>> {
    let archives = images::build(&crate::root())?;
    let start = || {
        runtime
            .block_on(install_all(&archives))
            .map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let starts: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
        let clusters = starts.into_iter().map(|start| start.join().expect("it does not panic"));
        Ok(clusters.collect::<std::result::Result<_, String>>()?)
    })
}

async fn install_all(archives: &[PathBuf]) -> Result<Cluster> {
    let started = Instant::now();
    let cluster = Cluster::start(with_a_node()).await?;
    report("cluster", "with a node is ready", started);
    images::import(&cluster, archives)?;
    let started = Instant::now();
    install::operator(&crate::root(), &cluster)?;
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
