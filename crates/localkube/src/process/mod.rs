//! Processes of a cluster: started with a mark in their environment, found and ended by it.

pub(crate) mod cgroups;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
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
pub(crate) const COMPONENT_VARIABLE: &str = "LOCALKUBE_COMPONENT";

/// How long processes get to end by themselves. Nothing they could save outlives the cluster.
const GRACE: Duration = Duration::from_secs(1);
/// How long processes get to end once they are killed.
const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// How much the heap of a Go program may grow, in percent, before a garbage collection. On a machine with few cores,
/// collections would take a sixth of the time of a short-lived cluster.
const GO_GARBAGE_PERCENT: &str = "400";
/// How long a process may take to become another program. It takes less than a millisecond unless the machine is stuck.
const EXEC_LIMIT: Duration = Duration::from_secs(1);

/// A process that belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The component that it is, or that started it.
    pub component: String,
}

/// A program and how it is started.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    /// Set beside what it inherits.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// A command that runs the program in its own place, such as one that enters a namespace.
    pub(crate) prefix: Vec<String>,
}

impl Program {
    pub(crate) fn new(path: impl Into<PathBuf>, arguments: Vec<String>) -> Self {
        Self {
            path: path.into(),
            arguments,
            environment: Vec::new(),
            prefix: Vec::new(),
        }
    }
}

/// Starts `program` as `component` of the cluster in `dir`, its output appended to `log`.
///
/// It gets its own session: neither an interrupt nor the end of the terminal reaches it. So tear-down decides the order
/// in which processes end, and a process can outlive its parent.
pub(crate) fn spawn(dir: &Path, component: &str, program: &Program, log: &Path) -> Result<Child> {
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::io("open", log))?;
    let errors = output.try_clone().map_err(Error::io("open", log))?;
    // setsid runs the program in its own place, under the same process number, because a fresh child leads no group.
    let mut command = Command::new("setsid");
    command
        .args(&program.prefix)
        .arg(&program.path)
        .args(&program.arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(dir)
        .env("GOGC", GO_GARBAGE_PERCENT)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    mark(&mut command, dir, component)
        .spawn()
        .map_err(Error::io("start", &program.path))
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
/// A process that ends while it is read does not exist any more, and one whose environment may not be read is
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

/// The component that process `pid` is, if it belongs to the cluster in `dir`.
fn component_in(pid: i32, dir: &Path) -> Option<String> {
    let environment = environment(pid)?;
    if value_of(&environment, DIR_VARIABLE) != Some(dir.as_os_str()) {
        return None;
    }
    let component = value_of(&environment, COMPONENT_VARIABLE).map(OsStr::to_string_lossy);
    Some(component.unwrap_or_default().into_owned())
}

/// The environment of process `pid`.
///
/// During `exec`, a process has none for a moment. It must not be taken for a process that has none: it would survive
/// the end of its cluster.
fn environment(pid: i32) -> Option<Vec<u8>> {
    let deadline = Instant::now() + EXEC_LIMIT;
    loop {
        let environment = read_at_once(&format!("/proc/{pid}/environ")).ok()?;
        if !environment.is_empty() {
            return Some(environment);
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        if !shows_environment_soon(&stat) || Instant::now() > deadline {
            return None;
        }
        thread::yield_now();
    }
}

/// The contents of a file in one call. With several, the process could become another program between them, and the rest
/// would be missing.
fn read_at_once(path: &str) -> io::Result<Vec<u8>> {
    let mut size = 64 * 1024;
    loop {
        let mut contents = vec![0; size];
        let length = File::open(path)?.read(&mut contents)?;
        if length < size {
            contents.truncate(length);
            return Ok(contents);
        }
        size *= 2;
    }
}

/// Whether a process whose environment was read as empty has one or is about to, according to `/proc/PID/stat`. Zombies
/// and kernel threads have no memory.
fn shows_environment_soon(stat: &str) -> bool {
    // Numbered as in proc(5). The second field is a name in parentheses, which may hold spaces and parentheses itself.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
    let (memory, code, environment) = (field(23), field(26), (field(50), field(51)));
    // Where the code is, the kernel writes down after where the environment is.
    memory != "0" && (code == "0" || environment.0 != environment.1)
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
            let program = Program::new("sleep", vec!["60".to_owned()]);
            spawn(dir, component, &program, &log).expect("start sleep")
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
    fn a_process_is_found_while_it_becomes_another_program() {
        let folder = tempfile::tempdir().expect("create a folder");
        let dir = folder.path().canonicalize().expect("the folder exists");
        // One process that is 500 programs in turn, and then one that stays.
        let script = r#"[ "$1" = 0 ] && exec sleep 60; exec sh -c "$0" "$0" $(($1 - 1))"#;
        let program = Program::new("sh", ["-c", script, script, "500"].map(str::to_owned).to_vec());
        let mut child = spawn(&dir, "changing", &program, &dir.join("log")).expect("start a shell");
        let program = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&program).expect("it lives").trim() != "sleep" {
            assert_eq!(find(&dir).len(), 1);
        }
        end(&dir, |_| true).expect("end it");
        child.wait().expect("reap");
    }

    #[test]
    fn only_a_process_with_memory_can_come_to_show_an_environment() {
        let stat = |memory: &str, code: &str, from: &str, to: &str| {
            let mut fields = vec!["7"; 50];
            (fields[20], fields[23], fields[47], fields[48]) = (memory, code, from, to);
            format!("42 (a) name (x) {}\n", fields.join(" "))
        };
        assert!(
            shows_environment_soon(&stat("4096", "0", "0", "0")),
            "it is being replaced"
        );
        assert!(
            shows_environment_soon(&stat("4096", "0", "100", "100")),
            "the next is being set up"
        );
        assert!(
            shows_environment_soon(&stat("4096", "10", "100", "200")),
            "it has just been replaced"
        );
        assert!(
            !shows_environment_soon(&stat("4096", "10", "100", "100")),
            "it has none"
        );
        assert!(!shows_environment_soon(&stat("0", "0", "0", "0")), "it has ended");
        assert!(!shows_environment_soon(""));
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
