//! A running stand-in, and questions to it.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::Signal;
use stand_ins::engine::{METRICS_PORT, QUERY_PORT};
use stand_ins::loopback::free_address;
use tempfile::TempDir;
use testkit::http::request;
use testkit::program::Program;

/// A configuration as the operator renders it.
pub(crate) const CONFIGURATION: &str = r#"engine:
  id: analytics
  nodes:
  - host: analytics-g0-0.analytics-g0-hl.data.svc.cluster.local
  termination_grace_period: 50s
instance:
  id: 01KA3V7J5T9PZ4X6Q8W2E0R1Y3
  multi_engine:
    metadata_endpoint: main-metadata.data.svc.cluster.local:7000
  type: multi_engine
schema_version: "1.0"
"#;

/// The program with nothing of this process's environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firebolt-stand-in"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// What an engine is started with: the command line of a pod, in a folder and on an address of its own.
pub(crate) struct Launch {
    pub folder: TempDir,
    pub address: IpAddr,
    pub command: Command,
}

impl Launch {
    pub(crate) fn new(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("config.yaml"), configuration).expect("write the configuration");
        let address = free_address().expect("an address").ip();
        let mut command = program();
        command
            .args(["server", "--node", "0", "--data-dir"])
            .arg(folder.path())
            .env("HOSTNAME", "analytics-g0-0")
            .env("STAND_IN_ADDRESS", address.to_string());
        Self {
            folder,
            address,
            command,
        }
    }

    /// An engine with a variable in the environment of its pod.
    pub(crate) fn with(name: &str, value: &str) -> Self {
        let mut launch = Self::new(CONFIGURATION);
        launch.command.env(name, value);
        launch
    }

    /// Runs it to its end and returns how it ended, and the last line that it said.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let output = self.command.output().expect("run");
        let stderr = String::from_utf8(output.stderr).expect("text");
        (output.status, stderr.lines().last().unwrap_or_default().to_owned())
    }

    pub(crate) fn start(mut self) -> Running {
        Running {
            program: Program::start("engine", &mut self.command),
            address: self.address,
            _folder: self.folder,
        }
    }
}

/// A running engine.
pub(crate) struct Running {
    // Before the folder, so that it ends before its files go.
    program: Program,
    address: IpAddr,
    _folder: TempDir,
}

impl Running {
    /// Waits until it has logged something.
    pub(crate) fn until(&self, text: &str) {
        let _line = self.program.wait_for_log(text);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.program.wait()
    }

    pub(crate) fn queries(&self) -> SocketAddr {
        SocketAddr::new(self.address, QUERY_PORT)
    }

    pub(crate) fn metrics(&self) -> SocketAddr {
        SocketAddr::new(self.address, METRICS_PORT)
    }
}

/// Sends a request and returns the status and the body of the answer, if there is one.
pub(crate) fn ask(address: SocketAddr, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
    let response = request(address, method, target, "", body).ok()?;
    Some((response.status, response.body))
}
