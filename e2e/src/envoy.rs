//! The real Envoy.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::process::{Command, ExitStatus};

use localkube::tools::{Binary, Tools};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::program::Program;

use crate::http::ask;
use crate::wait::eventually;

/// The address of the admin interface.
const ADMIN: &str = "127.0.0.1:9901";

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    // Before the folder, so that it ends before its files go.
    program: Program,
    _folder: TempDir,
}

impl Envoy {
    /// Starts Envoy with a configuration and waits until it serves.
    pub async fn start(configuration: &str) -> Self {
        let folder = TempDir::new().expect("create a folder");
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, configuration).expect("write the configuration");
        let binary = Tools::from_env().and_then(|tools| tools.binary(Binary::Envoy));
        let mut command = Command::new(binary.unwrap_or_else(|error| panic!("{error}")));
        command
            .arg("-c")
            .arg(&file)
            // Hot restarts use memory that is shared by the whole machine.
            .args(["--disable-hot-restart", "--concurrency", "2", "--log-level", "warning"])
            // Tests wait for the access log, so it is flushed often.
            .args(["--file-flush-interval-msec", "50"]);
        let mut envoy = Self {
            program: Program::start("envoy", &mut command),
            _folder: folder,
        };
        eventually("Envoy serves", async || {
            envoy.program.assert_alive();
            envoy
                .admin("GET", "/ready")
                .await
                .is_ok_and(|answer| answer.trim() == "LIVE")
        })
        .await;
        envoy
    }

    /// The body of a response of the admin interface.
    pub async fn admin(&self, method: &str, path: &str) -> Result<String, Box<dyn Error>> {
        ask(ADMIN, method, path).await
    }

    /// Kills it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        self.program.signal(Signal::KILL);
        self.program.wait();
    }

    /// Its exit status, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.program.ended()
    }

    /// The sum of all counters and gauges whose name ends like this.
    pub async fn statistic(&self, name_end: &str) -> u64 {
        let text = self.admin("GET", "/stats").await.expect("read the statistics");
        let values = text.lines().filter_map(|line| line.split_once(": "));
        let matching = values.filter(|(name, _)| name.ends_with(name_end));
        matching.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
    }

    /// The addresses of all hosts that Envoy resolved, and whether each is healthy.
    pub async fn hosts(&self) -> BTreeMap<IpAddr, bool> {
        let text = self
            .admin("GET", "/clusters?format=json")
            .await
            .expect("read the clusters");
        let clusters: Value = serde_json::from_str(&text).expect("the clusters are JSON");
        let clusters = clusters["cluster_statuses"].as_array().cloned().unwrap_or_default();
        let dynamic = clusters.iter().filter(|cluster| cluster["added_via_api"] == true);
        let hosts = dynamic
            .filter_map(|cluster| cluster["host_statuses"].as_array())
            .flatten();
        let state = |host: &Value| {
            let address = host["address"]["socket_address"]["address"].as_str()?.parse().ok()?;
            let health = host["health_status"].as_object()?;
            let failed = health
                .keys()
                .any(|key| key.starts_with("failed") || key.starts_with("pending"));
            Some((address, !failed))
        };
        hosts.filter_map(state).collect()
    }

    /// The access log so far. Every line must be a JSON object.
    #[must_use]
    pub fn access_log(&self) -> Vec<Value> {
        let text = self.program.output();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |line: &str| {
            let value = serde_json::from_str::<Value>(line);
            value
                .ok()
                .filter(Value::is_object)
                .unwrap_or_else(|| panic!("no JSON object in the access log: {line}"))
        };
        whole.lines().map(parse).collect()
    }
}
