//! A process that owns a cluster, to be ended in every way, and waiting for things to come true.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use localkube::processes_of;
use rustix::process::{Pid, Signal, kill_process};

/// The program `localkube-hold`, as a child. Killed if a test gives up on it.
pub(crate) struct Holder {
    child: Child,
}

impl Holder {
    pub(crate) fn start(base: &Path, environment: &[(&str, &Path)]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_localkube-hold"))
            .arg(base)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the holder");
        Self { child }
    }

    /// Waits until the cluster is ready and returns its folder.
    pub(crate) fn dir(&mut self) -> PathBuf {
        let mut line = String::new();
        let output = self.child.stdout.as_mut().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("read its output");
        assert!(!line.is_empty(), "the holder has a cluster");
        PathBuf::from(line.trim_end())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("signal the holder");
    }

    /// Waits until it ends and tells which signal ended it.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        self.child.wait().expect("wait for the holder").signal()
    }

    /// Waits until it ends; tells whether it succeeded and what it complained about.
    pub(crate) fn end_by_itself(mut self) -> (bool, String) {
        let mut stderr = String::new();
        let errors = self.child.stderr.as_mut().expect("its error output is piped");
        errors.read_to_string(&mut stderr).expect("read its error output");
        (self.child.wait().expect("wait for the holder").success(), stderr)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many processes of clusters below `base` run.
pub(crate) fn processes_in(base: &Path) -> usize {
    clusters(base).iter().map(|dir| processes_of(dir).len()).sum()
}

/// The folders of clusters below `base`.
pub(crate) fn clusters(base: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(base.canonicalize().expect("the base exists")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

pub(crate) fn write_script(path: &Path, text: &str) {
    fs::write(path, text).expect("write the script");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("make it a program");
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        thread::sleep(Duration::from_millis(20));
    }
}
