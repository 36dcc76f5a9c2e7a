//! Development only: a real Kubernetes on one machine, for tests and the demo.
//!
//! [`Cluster::start`] runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler from the pinned [`tools`] in
//! a few seconds, on loopback addresses and free ports, so that several clusters can run side by side.
//!
//! With [`Options::nodes`], pods run as well: the cluster then has a network of its own with containerd, kubelet,
//! kube-proxy and CoreDNS, and a relay makes the API server reachable from the machine under the same address as inside.
//! That takes root. Each further node has a network of its own, plugged into that of the first.
//!
//! # Guarantees
//!
//! - A cluster that is dropped, by a panic too, leaves no process and no folder. So does SIGINT, SIGTERM or SIGHUP.
//! - What a killed owner leaves behind is removed by the next start. No journal is kept that could be wrong: every
//!   process carries the folder of its cluster in its environment ([`DIR_VARIABLE`]), or, if it is a pod's, is in a
//!   control group named after the folder. So the processes themselves are the record, and a lock on the folder tells
//!   whether its owner still lives. Namespaces and mounts of nodes are gone with their last process.
//! - [`Cluster::up`] leaves a cluster running in the background, and [`down`] removes it.
//!
//! # Caveats
//!
//! Linux only, since `/proc` is read. Data does not survive: etcd never waits for the disk.

mod cluster;
mod components;
mod error;
mod helper;
mod identity;
mod namespaces;
mod process;
mod state;
pub mod tools;
mod topology;

pub use cluster::{ATTACH_VARIABLE, Cluster, ComponentStatus, Options, Status, Up, default_dir, down, status};
pub use components::containerd::SANDBOX_IMAGE;
pub use error::Error;
pub use helper::serve_as_helper;
pub use process::cgroups::find as control_groups_of;
pub use process::{DIR_VARIABLE, Process, find as processes_of};
pub use topology::{Component, Node};

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
