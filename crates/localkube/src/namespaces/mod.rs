//! Network and mounts of a node: namespaces that a process holds which does nothing else.
//!
//! What is mounted and set up in there can be seen from nowhere else, and is gone as soon as the last process inside is:
//! nothing has to be unmounted or taken down, whatever happened to the owner.
//!
//! Inside, `/run` and `/var` are the node's own, so that containerd and kubelet have their usual places.

pub(crate) mod holder;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::state::layout::Layout;
use crate::topology::{Component, Node};
use crate::{Error, Result, process};

/// How long the holder may take to have its namespaces.
const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// Writes to `/run` and `/var` go to memory, except for large data, which is in the directory of the node. The
/// directory of the cluster stays as it is, even if it is below `/var` itself.
const MOUNT: &str = r#"
mount --make-rprivate /
mount -t tmpfs -o mode=755 localkube /run
mkdir -p /run/localkube/cluster /run/localkube/var /run/localkube/work
mount --bind "$2" /run/localkube/cluster
mount -t overlay -o lowerdir=/var,upperdir=/run/localkube/var,workdir=/run/localkube/work localkube /var
mount --bind /run/localkube/cluster "$2"
for place in lib/containerd lib/kubelet log; do
  mkdir -p "/var/$place" "$1/$place"
  mount --bind "$1/$place" "/var/$place"
done
# No registry can be reached, and attempts fail immediately.
: > /run/localkube/resolv.conf
if [ -e /etc/resolv.conf ]; then mount --bind /run/localkube/resolv.conf /etc/resolv.conf; fi
mount --make-rshared /
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
# Answers between pods of one bridge have to pass by the translation of Service addresses.
bridge=/proc/sys/net/bridge/bridge-nf-call-iptables
if [ -e $bridge ]; then echo 1 > $bridge; fi
"#;
/// A bridge, because not every kernel has dummy devices, and other nodes can be attached to it.
const FIRST: &str = r#"
ip link add name nodes type bridge
ip address add "$1/24" dev nodes
ip link set nodes up
ip route add default dev nodes
"#;
/// Run in the network of the first node.
const PLUG: &str = r#"
ip link add name "$2" type veth peer name nodes netns "$1"
ip link set "$2" master nodes up
ip route add "$4" via "$3"
"#;
const FURTHER: &str = r#"
ip address add "$1/24" dev nodes
ip link set nodes up
ip route add default via "$2"
"#;

/// Sets up the namespaces of `node`, whose holder runs.
pub(crate) fn set_up(layout: &Layout, node: Node) -> Result<()> {
    await_holder(layout, node)?;
    let folder = layout.node(node, "").display().to_string();
    let cluster = layout.dir().display().to_string();
    run(layout, node, MOUNT, &[&folder, &cluster])?;
    match node {
        Node::First => run(layout, node, FIRST, &[node.address()]),
        Node::Second => {
            let holder = holder_of(layout.dir(), node)?.to_string();
            let plug = [holder.as_str(), node.name(), node.address(), node.pods()];
            run(layout, Node::First, PLUG, &plug)?;
            run(layout, node, FURTHER, &[node.address(), Node::First.address()])
        }
    }
}

/// The prefix of a command that runs in the network of `node`, and, with `mounts`, in its mount namespace.
pub(crate) fn enter(dir: &Path, node: Node, mounts: bool) -> Result<Vec<String>> {
    let holder = holder_of(dir, node)?;
    let mut command = vec!["nsenter".to_owned(), format!("--net=/proc/{holder}/ns/net")];
    if mounts {
        command.push(format!("--mount=/proc/{holder}/ns/mnt"));
    }
    command.push("--".to_owned());
    Ok(command)
}

/// A connection from the network of `node` to `address`.
pub(crate) fn connect(dir: &Path, node: Node, address: SocketAddr) -> Result<TcpStream> {
    let namespace = PathBuf::from(format!("/proc/{}/ns/net", holder_of(dir, node)?));
    // A socket stays in the network that it was made in, and only the thread that makes it has to be there.
    let connecting = thread::spawn(move || {
        let file = File::open(&namespace).map_err(Error::io("open", &namespace))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| Error::io("enter", &namespace)(error.into()))?;
        TcpStream::connect(address).map_err(Error::io("connect to", address.to_string()))
    });
    connecting
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The process that holds the namespaces of `node`.
pub(crate) fn holder_of(dir: &Path, node: Node) -> Result<i32> {
    let name = Component::Network(node).name();
    process::find(dir)
        .into_iter()
        .find(|process| process.component == name)
        .map(|process| process.pid)
        .ok_or_else(|| Error::NoNode {
            path: dir.to_owned(),
            node: node.name(),
        })
}

/// Waits until the holder, which has been started, is in namespaces of its own.
fn await_holder(layout: &Layout, node: Node) -> Result<()> {
    let started = Instant::now();
    loop {
        // Until it has become the program that does nothing, what is mounted inside might still show outside.
        let program = holder_of(layout.dir(), node)
            .ok()
            .and_then(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        if program.is_some_and(|program| program.trim_end() == holder::IDLE) {
            return Ok(());
        }
        if started.elapsed() > LIMIT {
            let component = Component::Network(node);
            return Err(Error::NotReady {
                name: component.name(),
                waited: started.elapsed(),
                reason: "it has no namespaces of its own".to_owned(),
                log: layout.log_tail(component),
            });
        }
        thread::sleep(POLL);
    }
}

/// Runs a script in the namespaces of `node`.
fn run(layout: &Layout, node: Node, script: &str, arguments: &[&str]) -> Result<()> {
    let enter = enter(layout.dir(), node, true)?;
    let mut command = Command::new(&enter[0]);
    command
        .args(&enter[1..])
        .args(["sh", "-euc", script, "sh"])
        .args(arguments);
    let output = process::mark(&mut command, layout.dir(), "set-up")
        .output()
        .map_err(Error::io("run", "nsenter"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::SetUp {
        node: node.name(),
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
