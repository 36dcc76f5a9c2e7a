//! Control groups: where kubelet puts the processes of pods, and so the record of what has to end with the cluster.
//!
//! The processes of pods do not carry the mark of the cluster, since their environment is their own. But they cannot
//! leave the group that they are born in, and the name of that group follows from the folder of the cluster.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sha2::{Digest as _, Sha256};

use crate::topology::Node;
use crate::{Error, Result};

/// How long killed processes get to be gone.
const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// The group of all pods of the cluster in `dir`, as a path in every hierarchy.
fn of_cluster(dir: &Path) -> String {
    let mut name = "localkube-".to_owned();
    for byte in &Sha256::digest(dir.as_os_str().as_bytes())[..6] {
        write!(name, "{byte:02x}").expect("writing to a string succeeds");
    }
    name
}

/// The group of the pods of one node.
pub(crate) fn of_node(dir: &Path, node: Node) -> String {
    format!("/{}/{node}", of_cluster(dir))
}

/// Makes the group of the pods of a node, which kubelet expects to find.
pub(crate) fn create(dir: &Path, node: Node) -> Result<()> {
    for hierarchy in hierarchies() {
        let mut group = hierarchy.clone();
        for part in [of_cluster(dir), node.to_string()] {
            let parent = group.clone();
            group.push(part);
            // In cgroup v2, a group has the controllers that its parent delegates.
            let controllers = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
            for controller in controllers.split_whitespace() {
                let list = parent.join("cgroup.subtree_control");
                fs::write(&list, format!("+{controller}")).map_err(|error| hand_down(&list, error))?;
            }
            fs::create_dir_all(&group).map_err(Error::io("create", &group))?;
            // Of the old kind, a group of processors starts with none, and nothing can run in it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(value) = fs::read_to_string(parent.join(file))
                    && !value.trim().is_empty()
                {
                    fs::write(group.join(file), value).map_err(Error::io("write", group.join(file)))?;
                }
            }
        }
    }
    Ok(())
}

/// Why controllers cannot be handed down.
fn hand_down(list: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::ResourceBusy {
        // Typical of a container, whose processes are in the group that it takes for the root.
        let reason = format!(
            "{} cannot hand controllers down while processes are in that group; run it on the machine itself, or move \
             them to a group of their own",
            list.display()
        );
        return Error::Impossible(reason);
    }
    Error::io("write", list)(error)
}

/// The groups of all pods of the cluster in `dir`, one in each hierarchy, as far as they exist.
#[must_use]
pub fn find(dir: &Path) -> Vec<PathBuf> {
    let groups = hierarchies().into_iter().map(|place| place.join(of_cluster(dir)));
    groups.filter(|group| group.exists()).collect()
}

/// Kills every process in the groups of the cluster in `dir`, and removes the groups.
pub(crate) fn clear(dir: &Path) -> Result<()> {
    let started = Instant::now();
    loop {
        let (mut left, mut kept) = (Vec::new(), None);
        for group in find(dir) {
            left.extend(kill(&group));
            kept = remove(&group).err().or(kept);
        }
        let Some(error) = kept else { return Ok(()) };
        if started.elapsed() > DEADLINE {
            left.sort_unstable();
            left.dedup();
            return Err(match left.as_slice() {
                [] => error,
                _ => Error::WontEnd {
                    path: dir.to_owned(),
                    pids: left,
                },
            });
        }
        thread::sleep(POLL);
    }
}

/// The mount points of cgroup v1 and v2.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, kind) = (fields.next()?, fields.next()?);
            (kind == "cgroup" || kind == "cgroup2").then(|| place.into())
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Kills the processes in the group and below, and returns their process IDs.
fn kill(group: &Path) -> Vec<i32> {
    let mut killed = Vec::new();
    for group in below(group) {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines().filter_map(|line| line.parse().ok()) {
            let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
                continue;
            };
            // The handle was opened first: if the process ID has been reused, that process is not in the group.
            let again = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            if again.lines().any(|line| line == pid.to_string()) {
                let _already_gone = pidfd_send_signal(&handle, Signal::KILL);
                killed.push(pid);
            }
        }
    }
    killed
}

/// Removes the group and those below, the innermost first. One that still has processes stays: the caller retries.
fn remove(group: &Path) -> Result<()> {
    for group in below(group).iter().rev() {
        match fs::remove_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", group)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// The group and all below, each before those inside it.
fn below(group: &Path) -> Vec<PathBuf> {
    let mut groups = vec![group.to_owned()];
    let mut next = 0;
    while let Some(group) = groups.get(next) {
        let inside: io::Result<Vec<PathBuf>> = fs::read_dir(group).map(|entries| {
            let folders = entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.map(|entry| entry.path()).collect()
        });
        groups.extend(inside.unwrap_or_default());
        next += 1;
    }
    groups
}
