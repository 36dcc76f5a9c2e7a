//! A running agent and its log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const GATEWAY: [&str; 3] = [
    "--namespace=sales",
    "--instance=main",
    "--engine-suffix=-service.sales.svc.cluster.local:3473",
];

/// Longer than anything here takes.
const LONG: Duration = Duration::from_mins(1);

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

/// A running agent. Dropping it kills the process.
pub(crate) struct Agent {
    child: Child,
    lines: Receiver<Value>,
    pub address: SocketAddr,
}

impl Agent {
    /// Starts an agent on a free port, without an Envoy.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = program()
            .args(GATEWAY)
            .args([
                "--listen=127.0.0.1:0",
                "--envoy-admin=127.0.0.1:1",
                "--envoy-probe=127.0.0.1:1",
            ])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                let _unread = sender.send(line);
            }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut agent = Self { child, lines, address };
        agent.address = agent.logs("started")["address"].as_str().unwrap().parse().unwrap();
        agent
    }

    /// The next line of the log.
    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(LONG).expect("another line of the log")
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
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The whole response to a request, as sent.
    pub(crate) fn get(&self, path: &str, headers: &str) -> String {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        text(&answer)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have exited already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
