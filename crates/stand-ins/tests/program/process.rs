//! A running stand-in, and questions to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stand_ins::engine::{METRICS_PORT, QUERY_PORT};
use stand_ins::loopback::free_address;
use tempfile::TempDir;

/// A bound for what has to happen.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// A configuration as the operator renders it.
pub(crate) const CONFIGURATION: &str = r#"engine:
  id: analytics
  nodes:
  - host: analytics-g0-0.analytics-g0-hl.data.svc.cluster.local
  termination_grace_period: 55s
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
        let mut child = self.command.stderr(Stdio::piped()).spawn().expect("start");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        Running {
            child,
            log,
            address: self.address,
            _folder: self.folder,
        }
    }
}

/// A running engine, which is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    address: IpAddr,
    _folder: TempDir,
}

impl Running {
    /// Waits until it says something.
    pub(crate) fn until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let length = self.log.read_line(&mut line).expect("a line");
            assert!(length > 0, "it ended without saying {text}");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(&self.child, signal);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }

    pub(crate) fn queries(&self) -> SocketAddr {
        SocketAddr::new(self.address, QUERY_PORT)
    }

    pub(crate) fn metrics(&self) -> SocketAddr {
        SocketAddr::new(self.address, METRICS_PORT)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub(crate) fn kill(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("send a signal");
}

/// Sends a request and returns the status and the body of the answer, if there is one.
pub(crate) fn ask(address: SocketAddr, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(SOON)).expect("set a limit");
    let length = body.len();
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: e\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    socket.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
