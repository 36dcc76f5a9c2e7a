//! Runs the operator as a process, under the service account and permissions it is shipped with.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod cleanup;
mod cluster;
pub(crate) mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use localkube::Cluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::RwLock;

pub(crate) use self::cluster::{OPERATOR_NAMESPACE, install_crds, namespace, prepare, service_account};

/// How long anything that should happen soon may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A question to a running process is asked again after this long.
const POLL: Duration = Duration::from_millis(20);

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

/// Asks until the answer is yes. The description is for the failure.
pub(crate) fn eventually(what: &str, within: Duration, mut ask: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !ask() {
        assert!(start.elapsed() < within, "timed out after {within:?}: {what}");
        thread::sleep(POLL);
    }
    start.elapsed()
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

/// A running operator. It is killed when it is dropped.
pub(crate) struct Operator {
    child: Child,
    log: Arc<Log>,
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
        let mut child = Command::new(env!("CARGO_BIN_EXE_firebolt-operator"))
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
            // Whoever clears the cluster away ends the operator too, should this test be killed.
            .env(localkube::DIR_VARIABLE, cluster.dir())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Log::default());
        let (sink, source) = (Arc::clone(&log), BufReader::new(child.stderr.take().unwrap()));
        thread::spawn(move || {
            for line in source.lines().map_while(Result::ok) {
                sink.lines.lock().unwrap().push(line);
                sink.grown.notify_all();
            }
        });
        Self {
            child,
            log,
            health: String::new(),
            metrics: String::new(),
            identity: String::new(),
        }
    }

    /// The first log line that contains `text`, as soon as there is one.
    pub(crate) fn wait_for_log(&self, text: &str) -> Value {
        let lines = self.log.lines.lock().unwrap();
        let is_missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(text));
        let (lines, _) = self.log.grown.wait_timeout_while(lines, SOON, is_missing).unwrap();
        let found = lines.iter().find(|line| line.contains(text)).cloned();
        drop(lines);
        let line = found.unwrap_or_else(|| panic!("no log line with {text:?}"));
        serde_json::from_str(&line).unwrap()
    }

    /// All log lines so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lines.lock().unwrap().clone()
    }

    /// Status and body of a health endpoint.
    pub(crate) fn health(&self, path: &str) -> (u16, String) {
        get(&self.health, path).unwrap()
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
        let (_, text) = get(&self.metrics, "/metrics").ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// The sum of a metric over all label sets that have these labels.
    pub(crate) fn metric_over(&self, name: &str, labels: &[&str]) -> f64 {
        let (_, text) = get(&self.metrics, "/metrics").unwrap_or_default();
        let values = text.lines().filter_map(|line| {
            let (found, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} ")?;
            let has_all = labels.iter().all(|label| found.contains(label));
            value.parse::<f64>().ok().filter(|_| has_all)
        });
        values.sum()
    }

    /// The whole answer of the metrics server, with its head.
    pub(crate) fn metrics_answer(&self) -> String {
        exchange(&self.metrics, "/metrics").unwrap()
    }

    /// Whether no object is queued, being reconciled, or to be reconciled at a set time by this controller.
    pub(crate) fn has_no_reconcile_scheduled(&self, controller: &str) -> bool {
        let (_, text) = get(&self.metrics, "/metrics").unwrap_or_default();
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
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits for the process to end.
    pub(crate) fn wait(&mut self, within: Duration) -> ExitStatus {
        let mut status = None;
        eventually("the operator ends", within, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("log of the operator: {:#?}", self.log());
        }
        let _already_gone = self.child.kill();
        let _already_gone = self.child.wait();
    }
}

/// Opens a connection and sends the start of a request.
pub(crate) fn send(address: &str, text: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

fn exchange(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = send(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n"),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    let answer = exchange(address, path)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    Ok((status, body.to_owned()))
}
