//! The processes of a cluster, one file for each: what it is started with, and where it can be asked how it feels.
//!
//! A node adds its own here (containerd, kubelet, kube-proxy, DNS).

mod apiserver;
mod controller_manager;
mod etcd;
mod scheduler;

use std::fmt;

use crate::Result;
use crate::layout::Layout;
use crate::tools::Binary;

/// One process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is the name of a program, and nothing more")]
pub enum Component {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
}

/// Where a component answers whether it is healthy.
pub(crate) struct Health {
    pub(crate) port: u16,
    pub(crate) path: &'static str,
    /// What the API server must have as well, for a component that says that it is healthy before it does its work.
    pub(crate) proof: Option<&'static str>,
}

impl Component {
    /// Every component, in the order of dependence.
    pub const ALL: [Self; 4] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
    ];

    /// The name of the component, which is that of its program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.binary().name()
    }

    pub(crate) const fn binary(self) -> Binary {
        match self {
            Self::Etcd => Binary::Etcd,
            Self::KubeApiserver => Binary::KubeApiserver,
            Self::KubeControllerManager => Binary::KubeControllerManager,
            Self::KubeScheduler => Binary::KubeScheduler,
        }
    }

    pub(crate) fn arguments(self, layout: &Layout) -> Vec<String> {
        match self {
            Self::Etcd => etcd::arguments(layout),
            Self::KubeApiserver => apiserver::arguments(layout),
            Self::KubeControllerManager => controller_manager::arguments(layout),
            Self::KubeScheduler => scheduler::arguments(layout),
        }
    }

    /// etcd has no port, so the API server answers for it.
    pub(crate) fn health(self, layout: &Layout) -> Health {
        let (port, path) = match self {
            Self::Etcd => (layout.ports.apiserver, "/readyz/etcd"),
            Self::KubeApiserver => (layout.ports.apiserver, "/readyz"),
            Self::KubeControllerManager => (layout.ports.controller_manager, "/healthz"),
            Self::KubeScheduler => (layout.ports.scheduler, "/readyz"),
        };
        // The controllers are started together, and this object is the first that one of them makes.
        let proof = "/api/v1/namespaces/default/serviceaccounts/default";
        Health {
            port,
            path,
            proof: (self == Self::KubeControllerManager).then_some(proof),
        }
    }

    /// Where the component listens.
    pub(crate) fn address(self, layout: &Layout) -> String {
        match self {
            Self::Etcd => etcd::CLIENT_URL.to_owned(),
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => {
                format!("https://127.0.0.1:{}", self.health(layout).port)
            }
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Writes the files that components are configured by.
pub(crate) fn write_configuration(layout: &Layout) -> Result<()> {
    apiserver::write_configuration(layout)
}

/// The serving flags that the API server and its clients have in common. The certificate saves each of them the time
/// that making one takes, and lets our probes tell this cluster from any other that might sit on the port.
fn serving(layout: &Layout, port: u16) -> Vec<String> {
    vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", layout.pki("server.crt").display()),
        format!("--tls-private-key-file={}", layout.pki("server.key").display()),
        format!("--client-ca-file={}", layout.pki("ca.crt").display()),
    ]
}

/// The flags by which a client of the API server finds it, for its own work and for checking who asks it things.
fn connecting(kubeconfig: &str) -> Vec<String> {
    let mut flags = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .map(|flag| format!("--{flag}={kubeconfig}"))
        .to_vec();
    // The lookup would have to wait for the API server, and finds no more than the flags above say.
    flags.push("--authentication-skip-lookup=true".to_owned());
    // The defaults protect a server that many share; at the start they cost a second and more.
    flags.extend(["--kube-api-qps=1000".to_owned(), "--kube-api-burst=1000".to_owned()]);
    flags
}
