//! A cluster in a folder of its own, run by the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use localkube::{control_groups_of, processes_of};

/// A folder for a cluster, which is gone when the test is over, however it ends.
pub(crate) struct Place {
    base: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            base: tempfile::tempdir().expect("create a folder"),
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.base.path().canonicalize().expect("the base exists").join("kube")
    }

    pub(crate) fn kube(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["kube", verb, "--dir"]).arg(self.dir());
        command
    }

    pub(crate) fn run(&self, verb: &str) -> Output {
        self.kube(verb).output().expect("run xtask")
    }

    /// Takes the cluster down, and once more when it is gone already; nothing may be left.
    pub(crate) fn clear(&self) {
        for removed in ["removed ", "nothing to remove"] {
            let down = self.run("down");
            let output = text(&down);
            assert!(down.status.success() && output.starts_with(removed), "{output}");
            assert_gone(&self.dir());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.kube("down").stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// All that a program has printed.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Fails if anything is left of the cluster that was in `dir`.
fn assert_gone(dir: &Path) {
    assert!(processes_of(dir).is_empty(), "no process is left");
    let groups = control_groups_of(dir);
    assert!(groups.is_empty(), "no control group is left, not {groups:?}");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read the mounts");
    let place = dir.to_str().expect("a plain path");
    assert!(!mounts.contains(place), "nothing is mounted there: {mounts}");
    assert!(!dir.exists(), "no folder is left");
}
