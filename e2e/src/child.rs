//! A program that a test runs, with its output in files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// The number of lines of a log that are shown when a test fails.
const TAIL_LINES: usize = 60;

/// A running program. It is killed when it is dropped; if that is because a test fails, the end of its log is shown.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Program {
    /// Starts `command`, with its output and its errors in files of `folder`.
    pub(crate) fn start(name: &'static str, command: &mut Command, folder: &Path) -> Self {
        let (output, log) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.log")));
        let create =
            |path: &Path| File::create(path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&output))
            .stderr(create(&log))
            .spawn()
            .unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self {
            name,
            child,
            output,
            log,
        }
    }

    /// Panics with the end of its log if the program has exited.
    pub(crate) fn assert_alive(&mut self) {
        let ended = self.ended();
        assert!(
            ended.is_none(),
            "{} ended with {ended:?}:\n{}",
            self.name,
            self.log_tail()
        );
    }

    /// Its exit status, if it has exited.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask for the state of a child")
    }

    /// Waits until it has exited.
    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("wait for a child");
    }

    /// Its `/proc` status. `/proc` is that of the machine, where processes of a test have other process IDs.
    pub(crate) fn state(&self) -> String {
        let number = format!("\t{}", self.child.id());
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

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("send a signal to a child");
    }

    /// Its standard error so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("read the log of a child")
    }

    /// Its standard output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).expect("read the output of a child")
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the last lines of {}:\n{}", self.name, self.log_tail());
        }
        let _already_gone = self.child.kill();
        let _already_gone = self.child.wait();
    }
}
