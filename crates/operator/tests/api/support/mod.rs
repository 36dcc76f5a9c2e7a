//! Runs the operator as a process, under the service account and permissions it is shipped with.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod cleanup;
mod cluster;
pub(crate) mod tls;

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use localkube::Cluster;
use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{self, Response};
use testkit::program::Program;
use testkit::wait::{SOON, eventually};
use tokio::sync::RwLock;

pub(crate) use self::cluster::{OPERATOR_NAMESPACE, install_crds, namespace, prepare, service_account};

/// Keeps apart what must not overlap on a small machine: a test that starts a control plane of its own holds this for
/// writing, one that depends on the timing of a lease holds it for reading.
pub(crate) static CONTROL_PLANES: RwLock<()> = RwLock::const_new(());

/// A name that no other test uses.
pub(crate) fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{prefix}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// The manifest of an engine that the definitions accept.
pub(crate) fn engine(namespace: &str, name: &str, label: &str) -> String {
    format!(
        "apiVersion: compute.firebolt.io/v1alpha1\nkind: FireboltEngine\nmetadata:\n  namespace: {namespace}\n  \
         name: {name}\n  labels: {{team: {label}}}\nspec:\n  instanceRef: i\n  replicas: 1\n"
    )
}

/// A running operator.
pub(crate) struct Operator {
    program: Program,
    health: String,
    metrics: String,
    pub identity: String,
}

impl Operator {
    /// Starts one with the given flags and waits for its first log line.
    pub(crate) fn start(cluster: &Cluster, kubeconfig: &Path, flags: &[&str]) -> Self {
        let mut operator = Self::spawn(cluster, kubeconfig, flags);
        let first = operator.wait_for_log("\"starting\"");
        let field = |name: &str| first[name].as_str().unwrap().to_owned();
        (operator.health, operator.metrics, operator.identity) = (field("health"), field("metrics"), field("identity"));
        operator
    }

    /// Starts one that may not get as far as its first log line.
    pub(crate) fn spawn(cluster: &Cluster, kubeconfig: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firebolt-operator"));
        command
            .args([
                "run",
                "--log-format=json",
                "--lease-namespace",
                OPERATOR_NAMESPACE,
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
                "--webhook-bind-address=0",
            ])
            .args(flags)
            // If this test is killed, the cleanup of the cluster ends the operator as well.
            .env(localkube::DIR_VARIABLE, cluster.dir());
        Self {
            program: Program::start("operator", &mut command),
            health: String::new(),
            metrics: String::new(),
            identity: String::new(),
        }
    }

    /// The first log line that contains `text`, as soon as there is one.
    pub(crate) fn wait_for_log(&self, text: &str) -> Value {
        serde_json::from_str(&self.program.wait_for_log(text)).unwrap()
    }

    /// All log lines so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.program.log_lines()
    }

    /// Status and body of a health endpoint.
    pub(crate) fn health(&self, path: &str) -> (u16, String) {
        let response = http::get(&self.health, path).unwrap();
        (response.status, response.body)
    }

    /// The address of the health endpoints.
    pub(crate) fn health_address(&self) -> &str {
        &self.health
    }

    /// Waits until the operator is ready.
    pub(crate) fn wait_until_ready(&self) {
        eventually("ready", SOON, || self.health("/readyz").0 == 200);
    }

    /// The value of a metric, with its labels as in the text format; none if it cannot be had.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let response = self.scrape().ok()?;
        response
            .body
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// The sum of a metric over all label sets that have these labels.
    pub(crate) fn metric_over(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.scrape().map_or_else(|_| String::new(), |response| response.body);
        let values = text.lines().filter_map(|line| {
            let (found, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} ")?;
            let has_all = labels.iter().all(|label| found.contains(label));
            value.parse::<f64>().ok().filter(|_| has_all)
        });
        values.sum()
    }

    /// The whole answer of the metrics server, with its head.
    pub(crate) fn metrics_answer(&self) -> String {
        let response = self.scrape().unwrap();
        format!("{}\r\n{}", response.head, response.body)
    }

    fn scrape(&self) -> std::io::Result<Response> {
        http::get(&self.metrics, "/metrics")
    }

    /// Whether no object is queued, being reconciled, or to be reconciled at a set time by this controller.
    pub(crate) fn has_no_reconcile_scheduled(&self, controller: &str) -> bool {
        let text = self.scrape().map_or_else(|_| String::new(), |response| response.body);
        let of = format!("controller=\"{controller}\"");
        let values = |name: &str| -> Vec<f64> {
            let series = text.lines().filter(|line| line.starts_with(name) && line.contains(&of));
            series
                .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
                .collect()
        };
        values("workqueue_depth{") == [0.0, 0.0]
            && values("controller_runtime_active_workers{") == [0.0]
            && values("firebolt_operator_scheduled_reconciles{") == [0.0]
    }

    /// Whether this process is the leader.
    pub(crate) fn leads(&self) -> bool {
        self.metric_over("leader_election_master_status", &[]) > 0.0
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// Waits for the process to end.
    pub(crate) fn wait(&mut self, within: Duration) -> ExitStatus {
        self.program.wait_within(within)
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.program.ended().is_none()
    }
}
