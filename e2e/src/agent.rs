//! The real wake agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::process::Signal;
use serde_json::Value;
use testkit::program::Program;

use crate::http::get;
use crate::wait::eventually;

/// The address on which it serves Envoy.
const ADDRESS: &str = "127.0.0.1:9902";

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    program: Program,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
}

impl Agent {
    /// Starts the agent with a kubeconfig, and waits until it serves.
    pub async fn start(arguments: &[String], kubeconfig: &Path) -> Self {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .args(["--log-format", "json"])
            .env("KUBECONFIG", kubeconfig);
        let mut agent = Self {
            program: Program::start("wake-agent", &mut command),
            arguments: arguments.to_vec(),
            kubeconfig: kubeconfig.to_owned(),
        };
        eventually("the agent answers", async || {
            agent.program.assert_alive();
            get(ADDRESS, "/healthz").await.is_ok()
        })
        .await;
        agent
    }

    /// Kills it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        self.program.signal(Signal::KILL);
        self.program.wait();
    }

    /// Restarts it, as the kubelet does.
    pub async fn restart(&mut self) {
        *self = Self::start(&self.arguments.clone(), &self.kubeconfig.clone()).await;
    }

    /// Stops the process without ending it: its connections stay open, and get no response.
    pub fn freeze(&self) {
        self.program.signal(Signal::STOP);
    }

    /// Resumes the process.
    pub fn thaw(&self) {
        self.program.signal(Signal::CONT);
    }

    /// Sends SIGTERM, as the kubelet does when the pod is terminated.
    pub fn terminate(&self) {
        self.program.signal(Signal::TERM);
    }

    /// Its exit status, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.program.ended()
    }

    /// Its memory in use, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let state = status(self.program.id());
        let resident = state.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("a process has memory") * 1024
    }

    /// Its log so far. Every line must be a JSON object.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let text = self.program.log();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON in the log: {line}"));
        whole.lines().map(parse).collect()
    }

    /// All metrics that it serves: those of Envoy and its own.
    pub async fn metrics(&self) -> String {
        get(ADDRESS, "/stats/prometheus").await.expect("read the metrics")
    }

    /// The sum of one of its metrics, `firebolt_gateway_wake_…`, over all labels that contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.metrics().await;
        let name = format!("firebolt_gateway_wake_{name}");
        let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
        let ours = samples.filter(|(series, _)| {
            let (bare, labels) = series.split_once('{').unwrap_or((series, ""));
            bare == name && labels.contains(label)
        });
        ours.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
    }
}

/// The `/proc` status of a child. `/proc` is that of the machine, where processes of a test have other process IDs.
fn status(child: u32) -> String {
    let number = format!("\t{child}");
    let threads = fs::read_dir("/proc/self/task").expect("list the own threads");
    let threads = threads.map(|thread| thread.expect("a thread").path());
    let children = threads.filter_map(|thread| fs::read_to_string(thread.join("children")).ok());
    let children: Vec<String> = children.collect();
    let states = children.iter().flat_map(|children| children.split_whitespace());
    let mut states = states.filter_map(|child| fs::read_to_string(format!("/proc/{child}/status")).ok());
    let ours = |state: &String| {
        let mut lines = state.lines();
        lines.any(|line| line.starts_with("NSpid:") && line.ends_with(&number))
    };
    states.find(ours).expect("the program runs")
}

/// Cargo places programs in the folder above that of tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its path");
    let program = test.ancestors().nth(2).map(|folder| folder.join("firebolt-wake-agent"));
    program
        .filter(|program| program.exists())
        .expect("the agent is built: run `make test-gateway`")
}
