//! Development only: a real Kubernetes on one machine, for tests and the demo.
//!
//! [`Cluster::start`] runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler from the pinned [`tools`] in
//! a few seconds, on loopback addresses and free ports, so that several clusters can run side by side.
//!
//! # Guarantees
//!
//! - A cluster that is dropped, by a panic too, leaves no process and no folder. So does SIGINT, SIGTERM or SIGHUP.
//! - What a killed owner leaves behind is removed by the next start. No journal is kept that could be wrong: every
//!   process carries the folder of its cluster in its environment ([`DIR_VARIABLE`]), so the processes themselves are
//!   the record, and a lock on the folder tells whether its owner still lives.
//! - [`Cluster::up`] leaves a cluster running in the background, and [`down`] removes it.
//!
//! # Caveats
//!
//! Linux only, since `/proc` is read. Data does not survive: etcd never waits for the disk.

mod cluster;
mod components;
mod error;
mod folder;
mod identity;
mod kubeconfig;
mod kubectl;
mod layout;
mod pki;
mod ports;
mod process;
mod ready;
mod running;
mod signals;
mod status;
pub mod tools;
mod webhooks;

pub use cluster::{ATTACH_VARIABLE, Cluster, Options, Up, default_dir, down};
pub use components::Component;
pub use error::{Error, chain};
pub use process::{COMPONENT_VARIABLE, DIR_VARIABLE, Process, find as processes_of};
pub use status::{ComponentStatus, Status, status};

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
