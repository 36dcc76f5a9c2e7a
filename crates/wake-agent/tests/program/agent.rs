//! A running agent and its log.

use std::cell::Cell;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Output};

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Response, request};
use testkit::program::Program;
use testkit::wait::{SOON, eventually};

pub(crate) const GATEWAY: [&str; 3] = [
    "--namespace=sales",
    "--instance=main",
    "--engine-suffix=-service.sales.svc.cluster.local:3473",
];

/// The program in an environment without a cluster.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firebolt-wake-agent"));
    command.env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running agent.
pub(crate) struct Agent {
    program: Program,
    /// The number of lines of the log that a test has read.
    read: Cell<usize>,
    pub address: SocketAddr,
}

impl Agent {
    /// Starts an agent on a free port, without an Envoy.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = program();
        command
            .args(GATEWAY)
            .args([
                "--listen=127.0.0.1:0",
                "--envoy-admin=127.0.0.1:1",
                "--envoy-probe=127.0.0.1:1",
            ])
            .args(arguments);
        let mut agent = Self {
            program: Program::start("wake-agent", &mut command),
            read: Cell::new(0),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        agent.address = agent.logs("started")["address"].as_str().unwrap().parse().unwrap();
        agent
    }

    /// The next line of the log.
    pub(crate) fn next(&self) -> Value {
        let mut line = None;
        eventually("another line of the log", SOON, || {
            line = self.program.log_lines().into_iter().nth(self.read.get());
            line.is_some()
        });
        self.read.set(self.read.get() + 1);
        let line = line.unwrap();
        serde_json::from_str(&line).unwrap_or(Value::String(line))
    }

    /// The next line of the log that contains a text.
    pub(crate) fn logs(&self, words: &str) -> Value {
        loop {
            let line = self.next();
            if line["message"].as_str().is_some_and(|message| message.contains(words)) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self) {
        self.program.signal(Signal::TERM);
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.program.wait()
    }

    /// The response to a GET.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Response {
        request(self.address, "GET", path, headers, "").unwrap()
    }
}
