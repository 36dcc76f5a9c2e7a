//! A process that owns a cluster, to be ended in every way.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use localkube::processes_of;
use rustix::process::Signal;
use testkit::program::Program;

/// The program `localkube-hold`.
pub(crate) struct Holder(Program);

impl Holder {
    pub(crate) fn start(base: &Path, environment: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_localkube-hold"));
        command.arg(base).envs(environment.iter().copied());
        Self(Program::start("localkube-hold", &mut command))
    }

    /// Waits until the cluster is ready and returns its folder.
    pub(crate) fn dir(&self) -> PathBuf {
        PathBuf::from(self.0.wait_for_output(""))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }

    /// Waits until it ends and tells which signal ended it.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        self.0.wait().signal()
    }

    /// Waits until it ends; tells whether it succeeded and what it complained about.
    pub(crate) fn end_by_itself(mut self) -> (bool, String) {
        (self.0.wait().success(), self.0.log())
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
