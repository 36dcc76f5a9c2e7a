//! A program that a test runs, with its output in files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wait::eventually;

/// Longer than any program takes to write a line that a test waits for.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The number of lines of a log that are shown when a test fails.
const TAIL_LINES: usize = 200;

/// A running program. It is killed when it is dropped; if that is because a test fails, the end of its log is shown.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    child: Child,
    folder: TempDir,
}

impl Program {
    /// Starts a program without input.
    pub fn start(name: &'static str, command: &mut Command) -> Self {
        let folder = TempDir::new().expect("create a folder");
        let create =
            |path: &Path| File::create(path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&output_path(&folder)))
            .stderr(create(&log_path(&folder)))
            .spawn()
            .unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self { name, child, folder }
    }

    /// Its process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("send a signal to a child");
    }

    /// Its exit status, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask for the state of a child")
    }

    /// Panics with the end of its log if the program has exited.
    pub fn assert_alive(&mut self) {
        let ended = self.ended();
        assert!(
            ended.is_none(),
            "{} ended with {ended:?}:\n{}",
            self.name,
            self.log_tail()
        );
    }

    /// Waits until it has exited.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("wait for a child")
    }

    /// Waits until it has exited, and fails if that takes longer.
    pub fn wait_within(&mut self, within: Duration) -> ExitStatus {
        let mut status = None;
        eventually(format!("{} ends", self.name), within, || {
            status = self.ended();
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Its standard output so far.
    #[must_use]
    pub fn output(&self) -> String {
        read(&output_path(&self.folder))
    }

    /// Its standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        read(&log_path(&self.folder))
    }

    /// The complete lines of its standard error so far.
    #[must_use]
    pub fn log_lines(&self) -> Vec<String> {
        complete_lines(&self.log())
    }

    /// The first line of its standard error that contains `text`, as soon as there is one.
    #[must_use]
    pub fn wait_for_log(&self, text: &str) -> String {
        self.wait_for_line(text, Self::log)
    }

    /// The first line of its standard output that contains `text`, as soon as there is one.
    #[must_use]
    pub fn wait_for_output(&self, text: &str) -> String {
        self.wait_for_line(text, Self::output)
    }

    fn wait_for_line(&self, text: &str, read: impl Fn(&Self) -> String) -> String {
        let mut found = None;
        eventually(format!("{} writes {text:?}", self.name), TIMEOUT, || {
            found = complete_lines(&read(self)).into_iter().find(|line| line.contains(text));
            found.is_some()
        });
        found.expect("it was found")
    }

    fn log_tail(&self) -> String {
        let log = self.log();
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

fn output_path(folder: &TempDir) -> PathBuf {
    folder.path().join("stdout")
}

fn log_path(folder: &TempDir) -> PathBuf {
    folder.path().join("stderr")
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last line may be incomplete.
fn complete_lines(text: &str) -> Vec<String> {
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    fn shell(script: &str) -> Program {
        Program::start("shell", Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn output_and_log_are_kept_apart() {
        let program = shell("echo to stdout; echo to stderr >&2; exec sleep 60");
        assert_eq!(program.wait_for_output(""), "to stdout");
        assert_eq!(program.wait_for_log("stderr"), "to stderr");
        assert_eq!(
            (program.output(), program.log()),
            ("to stdout\n".to_owned(), "to stderr\n".to_owned())
        );
    }

    #[test]
    fn an_incomplete_line_is_not_returned() {
        assert_eq!(complete_lines("one\ntw"), ["one"]);
        assert!(complete_lines("on").is_empty());
        assert_eq!(complete_lines("one\n\n"), ["one", ""]);
    }

    #[test]
    fn the_exit_status_is_returned() {
        assert_eq!(shell("exit 3").wait().code(), Some(3));
        assert_eq!(shell("exit 4").wait_within(TIMEOUT).code(), Some(4));
    }

    #[test]
    fn a_dropped_program_is_killed() {
        let mut program = shell("exec sleep 60");
        program.assert_alive();
        let id = Pid::from_child(&program.child);
        drop(program);
        assert!(test_kill_process(id).is_err());
    }
}
