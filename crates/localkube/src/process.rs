//! Processes of a cluster: started with a mark in their environment, found and ended by it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{Error, Result};

/// Set for every process of a cluster, to the folder of the cluster. What a process starts inherits it.
pub const DIR_VARIABLE: &str = "LOCALKUBE_DIR";
/// Set for every process of a cluster, to the name of the component.
pub const COMPONENT_VARIABLE: &str = "LOCALKUBE_COMPONENT";

/// How long processes get to end by themselves. Nothing they could save outlives the cluster.
const GRACE: Duration = Duration::from_secs(1);
/// How long processes get to end once they are killed.
const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// A process that belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The component that it is, or that started it.
    pub component: String,
}

/// Starts `program` as `component` of the cluster in `dir`, its output appended to `log`.
///
/// It gets a session of its own: neither the terminal's interrupt nor its closing reaches it, so that it ends in the
/// order that tear-down chooses, and outlives its parent where that is wanted.
pub(crate) fn spawn(dir: &Path, component: &str, program: &Path, arguments: &[String], log: &Path) -> Result<Child> {
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::io("open", log))?;
    let errors = output.try_clone().map_err(Error::io("open", log))?;
    // setsid runs the program in its own place, under the same process number, because a fresh child leads no group.
    let mut command = Command::new("setsid");
    command
        .arg(program)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    mark(&mut command, dir, component)
        .spawn()
        .map_err(Error::io("start", program))
}

/// Marks what `command` starts as part of the cluster in `dir`.
pub(crate) fn mark<'command>(command: &'command mut Command, dir: &Path, component: &str) -> &'command mut Command {
    command
        .env(DIR_VARIABLE, dir)
        .env(COMPONENT_VARIABLE, component)
        .env_remove("KUBECONFIG")
}

/// The live processes of the cluster in `dir`, other than this one.
///
/// A process that ends while it is looked at is not there any more, and one whose environment may not be read is
/// another user's: neither is an error.
#[must_use]
pub fn find(dir: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            Some(Process {
                pid,
                component: component_in(pid, dir)?,
            })
        })
        .collect()
}

/// The component that process `pid` is, if it belongs to the cluster in `dir`. A process that has ended and awaits its
/// parent shows an empty environment, so it does not count.
fn component_in(pid: i32, dir: &Path) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    if value_of(&environment, DIR_VARIABLE) != Some(dir.as_os_str()) {
        return None;
    }
    let component = value_of(&environment, COMPONENT_VARIABLE).map(OsStr::to_string_lossy);
    Some(component.unwrap_or_default().into_owned())
}

/// The value of `variable` in an environment block as `/proc` shows it.
fn value_of<'block>(environment: &'block [u8], variable: &str) -> Option<&'block OsStr> {
    environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
        .map(OsStr::from_bytes)
}

/// Ends the processes of the cluster in `dir` that `which` chooses and waits until they are gone.
pub(crate) fn end(dir: &Path, which: impl Fn(&Process) -> bool) -> Result<()> {
    let started = Instant::now();
    let mut asked = BTreeSet::new();
    loop {
        let left: Vec<Process> = find(dir).into_iter().filter(&which).collect();
        if left.is_empty() {
            return Ok(());
        }
        let waited = started.elapsed();
        if waited > GRACE + DEADLINE {
            let pids = left.iter().map(|process| process.pid).collect();
            return Err(Error::WontEnd {
                path: dir.to_owned(),
                pids,
            });
        }
        for process in left {
            if waited > GRACE {
                signal(process.pid, dir, Signal::KILL);
            } else if asked.insert(process.pid) {
                signal(process.pid, dir, Signal::TERM);
            }
        }
        thread::sleep(POLL);
    }
}

/// Signals process `pid` if it still belongs to the cluster in `dir`. The handle is taken before the check: should the
/// number go to another process in between, the signal goes nowhere.
fn signal(pid: i32, dir: &Path, signal: Signal) {
    let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    if component_in(pid, dir).is_some() {
        // It fails for a process that has just ended, which is what was wanted.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// The path that marks the processes of a cluster: absolute and free of links, though the folder itself need not exist.
pub(crate) fn canonical(dir: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(dir).map_err(Error::io("find", dir))?;
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        if let Ok(found) = existing.canonicalize() {
            return Ok(missing.iter().rev().fold(found, |path, name| path.join(name)));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                existing = parent;
            }
            _ => return Ok(absolute),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_block_is_matched_by_whole_name_and_whole_value() {
        let block = b"PATH=/bin\0XLOCALKUBE_DIR=/wrong\0LOCALKUBE_DIRS=/wrong\0LOCALKUBE_DIR=/a=b c\0EMPTY=\0";
        assert_eq!(value_of(block, DIR_VARIABLE), Some(OsStr::new("/a=b c")));
        assert_eq!(value_of(block, "EMPTY"), Some(OsStr::new("")));
        assert_eq!(value_of(block, "ABSENT"), None);
        assert_eq!(value_of(b"", DIR_VARIABLE), None);
    }

    #[test]
    fn marked_processes_are_found_and_ended_and_others_are_left_alone() {
        let folder = tempfile::tempdir().expect("create a folder");
        let dir = folder.path().canonicalize().expect("the folder exists");
        let sleeper = |component: &str, dir: &Path| {
            let log = folder.path().join("log");
            spawn(dir, component, Path::new("sleep"), &["60".to_owned()], &log).expect("start sleep")
        };
        let mut ours = [sleeper("one", &dir), sleeper("two", &dir)];
        let near = dir.join("sub");
        fs::create_dir(&near).expect("create a folder");
        let mut other = sleeper("one", &near);

        let mut found: Vec<String> = find(&dir).into_iter().map(|process| process.component).collect();
        found.sort();
        assert_eq!(found, ["one", "two"]);
        end(&dir, |process| process.component == "two").expect("end one of them");
        assert_eq!(find(&dir).len(), 1);
        end(&dir, |_| true).expect("end the rest");
        assert!(find(&dir).is_empty());
        assert_eq!(find(&near).len(), 1, "a longer path is another cluster");

        other.kill().expect("end the other");
        other.wait().expect("reap the other");
        for child in &mut ours {
            child.wait().expect("reap");
        }
    }

    #[test]
    fn a_folder_that_does_not_exist_has_a_canonical_path_too() {
        let folder = tempfile::tempdir().expect("create a folder");
        let real = folder.path().canonicalize().expect("the folder exists");
        std::os::unix::fs::symlink(&real, real.join("link")).expect("create a link");
        assert_eq!(
            canonical(&real.join("link/not/there")).expect("canonical"),
            real.join("not/there")
        );
    }
}
