//! Clients that query the engine from inside the network of the cluster, and their account of it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::thread;

use localkube::Cluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Result;

/// Where engines report what they run, as `demo.yaml` configures them. It is an address of the node.
const LEDGER: &str = "10.245.0.1:7070";
/// Many quick queries, and a few that are long enough to be seen draining. Only the first keeps the ledger; the others
/// are in it as well.
const QUICK: [&str; 6] = ["--clients", "8", "--rate", "400", "--ledger", LEDGER];
const SLOW: [&str; 4] = ["--clients", "4", "--duration", "3s"];

/// How many queries there are until now, of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) answered: u64,
    pub(super) failed: u64,
    /// Known in the end only.
    pub(super) ran_twice: u64,
    pub(super) lost: u64,
}

/// Running clients. They end when this is dropped, because their output is no longer read.
pub(super) struct Load {
    programs: Vec<LoadProgram>,
    lines: mpsc::UnboundedReceiver<(usize, String)>,
}

struct LoadProgram {
    child: std::process::Child,
    counts: Counts,
    failures: Vec<String>,
}

impl Load {
    /// Starts the clients: those with the ledger first, because engines refuse queries while they cannot report them.
    pub(super) async fn start(cluster: &Cluster, program: &Path, gateway: SocketAddr, engine: &str) -> Result<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut load = Self {
            programs: Vec::new(),
            lines,
        };
        for (number, settings) in [&QUICK[..], &SLOW[..]].into_iter().enumerate() {
            let mut child = cluster
                .inside(program)?
                .args(["load", "--engine", engine, "--gateway", &format!("http://{gateway}")])
                .args(settings)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            let printed = child.stdout.take().ok_or("read from the load")?;
            let sender = sender.clone();
            thread::spawn(move || forward(printed, number, &sender));
            load.programs.push(LoadProgram {
                child,
                counts: Counts::default(),
                failures: Vec::new(),
            });
            // Its first line comes after it has bound the address of the ledger.
            load.next().await?;
        }
        Ok(load)
    }

    /// Waits for the next news, several times a second.
    pub(super) async fn next(&mut self) -> Result<Counts> {
        let (number, line) = self.lines.recv().await.ok_or("read from the load: it has ended")?;
        self.programs[number].note(&line)?;
        Ok(self.counts())
    }

    pub(super) fn counts(&self) -> Counts {
        self.programs.iter().fold(Counts::default(), |sum, program| Counts {
            answered: sum.answered + program.counts.answered,
            failed: sum.failed + program.counts.failed,
            ran_twice: sum.ran_twice + program.counts.ran_twice,
            lost: sum.lost + program.counts.lost,
        })
    }

    /// Ends the clients after their last answers, and returns all counts, and why queries failed, if some did. The ledger
    /// is closed last: the others need it.
    pub(super) async fn stop(mut self) -> Result<(Counts, Vec<String>)> {
        for number in (0..self.programs.len()).rev() {
            let program = &mut self.programs[number];
            let pid = i32::try_from(program.child.id()).ok().and_then(Pid::from_raw);
            // It is our child and not waited for, so the number is still its own.
            kill_process(pid.ok_or("find the load")?, Signal::TERM)?;
            program.child.wait()?;
        }
        // The channel ends with the last program.
        while let Some((number, line)) = self.lines.recv().await {
            self.programs[number].note(&line)?;
        }
        let counts = self.counts();
        let failures = self.programs.into_iter().flat_map(|program| program.failures).collect();
        Ok((counts, failures))
    }
}

impl LoadProgram {
    fn note(&mut self, line: &str) -> Result<()> {
        let progress: Value =
            serde_json::from_str(line).map_err(|error| format!("read from the load: {error}: {line}"))?;
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        self.counts = Counts {
            answered: count(&progress["answered"]),
            failed: count(&progress["failed"]),
            ran_twice: count(&progress["report"]["ran_twice"]),
            lost: count(&progress["report"]["lost"]),
        };
        let failures = progress["report"]["failures"].as_array().into_iter().flatten();
        let reasons = failures.filter_map(|failure| failure["reason"].as_str());
        self.failures.extend(reasons.map(str::to_owned));
        Ok(())
    }
}

fn forward(printed: ChildStdout, number: usize, sender: &mpsc::UnboundedSender<(usize, String)>) {
    use std::io::BufRead as _;
    let lines = std::io::BufReader::new(printed).lines().map_while(std::io::Result::ok);
    for line in lines {
        if sender.send((number, line)).is_err() {
            return;
        }
    }
}
