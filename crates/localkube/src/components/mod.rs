//! The processes of a cluster, one file for each: its command line, its configuration and its health checks.

mod apiserver;
pub(crate) mod containerd;
mod controller_manager;
mod coredns;
mod etcd;
mod kube_proxy;
mod kubelet;
mod scheduler;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Result;
use crate::helper::{self, Task, provisioner};
use crate::namespaces::{self, holder};
use crate::process::{Program, cgroups};
use crate::state::layout::Layout;
use crate::tools::Tools;
use crate::topology::{Component, Node};

/// A health check of a component: the request, and whether the response means healthy.
pub(crate) struct Question {
    pub(crate) server: String,
    pub(crate) path: String,
    pub(crate) is_good: fn(&str) -> bool,
}

impl Component {
    /// How it is started.
    pub(crate) fn program(self, layout: &Layout, tools: &Tools) -> Result<Program> {
        let mut program = Program::new(self.path(tools)?, self.arguments(layout)?);
        match self {
            Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::CoreDns => {
                if !layout.nodes().is_empty() {
                    program.prefix = namespaces::enter(layout.dir(), Node::First, false)?;
                }
            }
            Self::Containerd(node) | Self::Kubelet(node) | Self::KubeProxy(node) => {
                program.prefix = namespaces::enter(layout.dir(), node, true)?;
                program.environment = debian_environment(tools);
            }
            Self::Network(_) | Self::Relay | Self::Provisioner => {}
        }
        Ok(program)
    }

    fn path(self, tools: &Tools) -> Result<PathBuf> {
        Ok(match (self, self.binary()) {
            (_, Some(binary)) => tools.binary(binary)?,
            (Self::Containerd(_), _) => tools.debian().join("usr/bin/containerd"),
            (Self::Network(_), _) => holder::PROGRAM.into(),
            _ => helper::program(),
        })
    }

    fn arguments(self, layout: &Layout) -> Result<Vec<String>> {
        Ok(match self {
            Self::Network(_) => holder::arguments(),
            Self::Relay => Task::Relay {
                namespace: format!("/proc/{}/ns/net", namespaces::holder_of(layout.dir(), Node::First)?).into(),
                ports: relayed(layout),
            }
            .arguments(),
            Self::Etcd => etcd::arguments(layout),
            Self::KubeApiserver => apiserver::arguments(layout),
            Self::KubeControllerManager => controller_manager::arguments(layout),
            Self::KubeScheduler => scheduler::arguments(layout),
            Self::Containerd(node) => containerd::arguments(layout, node),
            Self::Kubelet(node) => kubelet::arguments(layout, node),
            Self::KubeProxy(node) => kube_proxy::arguments(layout, node),
            Self::CoreDns => coredns::arguments(layout),
            Self::Provisioner => Task::Provision {
                kubeconfig: layout.kubeconfig(),
                volumes: layout.volumes(),
            }
            .arguments(),
        })
    }

    /// The health checks of the component. Some have none: the checks of others cover them.
    pub(crate) fn questions(self, layout: &Layout) -> Vec<Question> {
        let ports = layout.ports();
        let ask = |scheme: &str, port: u16, path: &str, is_good| Question {
            server: format!("{scheme}://127.0.0.1:{port}"),
            path: path.to_owned(),
            is_good,
        };
        let secure = |port, path| ask("https", port, path, |_| true);
        match self {
            // The API server reports the health of etcd, and all requests go through the relay. A kubelet has no
            // runtime and no network without containerd and the namespaces.
            Self::Etcd => vec![secure(ports.apiserver, "/readyz/etcd")],
            Self::Network(_) | Self::Relay | Self::Containerd(_) => Vec::new(),
            Self::KubeApiserver => vec![secure(ports.apiserver, "/readyz")],
            Self::KubeControllerManager => vec![
                secure(ports.controller_manager, "/healthz"),
                // It is healthy before its controllers work. They are started together, and this object is the first
                // that one of them creates.
                secure(ports.apiserver, "/api/v1/namespaces/default/serviceaccounts/default"),
            ],
            Self::KubeScheduler => vec![secure(ports.scheduler, "/readyz")],
            Self::Kubelet(node) => {
                let path = format!("/api/v1/nodes/{node}");
                vec![ask("https", ports.apiserver, &path, kubelet::is_ready)]
            }
            Self::KubeProxy(node) => vec![ask("http", ports.proxies[node as usize], "/healthz", |_| true)],
            Self::CoreDns => vec![ask("http", ports.dns, "/ready", |_| true)],
            Self::Provisioner => {
                let path = format!("/apis/storage.k8s.io/v1/storageclasses/{}", provisioner::CLASS);
                vec![secure(ports.apiserver, &path)]
            }
        }
    }

    /// Where the component listens.
    pub(crate) fn address(self, layout: &Layout) -> String {
        match self {
            Self::Etcd => etcd::CLIENT_URL.to_owned(),
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => {
                self.questions(layout).swap_remove(0).server
            }
            Self::Containerd(_) => format!("unix://{}", containerd::SOCKET),
            Self::Network(node) | Self::Kubelet(node) | Self::KubeProxy(node) => node.address().to_owned(),
            Self::CoreDns => format!("dns://{}:53", coredns::ADDRESS),
            Self::Relay => "127.0.0.1".to_owned(),
            Self::Provisioner => layout.volumes().display().to_string(),
        }
    }
}

/// Writes the files that components are configured by, and makes the control groups of nodes.
pub(crate) fn write_configuration(layout: &Layout, tools: &Tools) -> Result<()> {
    apiserver::write_configuration(layout)?;
    for node in layout.nodes() {
        cgroups::create(layout.dir(), *node)?;
        containerd::write_configuration(layout, tools, *node)?;
        kubelet::write_configuration(layout, *node)?;
        kube_proxy::write_configuration(layout, *node)?;
        coredns::write_configuration(layout)?;
    }
    Ok(())
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

/// The flags that point a client of the API server to it, for its own requests and to authenticate those it receives.
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

/// The ports that the relay opens on the machine, each with the address that it leads to inside.
fn relayed(layout: &Layout) -> Vec<(u16, String)> {
    let ports = layout.ports();
    let mut relayed: Vec<(u16, String)> = [ports.apiserver, ports.controller_manager, ports.scheduler]
        .map(|port| (port, format!("127.0.0.1:{port}")))
        .to_vec();
    relayed.push((ports.dns, format!("{}:{}", coredns::ADDRESS, coredns::READY_PORT)));
    for node in layout.nodes() {
        let inside = format!("{}:{}", node.address(), kube_proxy::HEALTH_PORT);
        relayed.push((ports.proxies[*node as usize], inside));
    }
    relayed
}

/// Lets programs of the Debian packages find each other and their libraries. What the machine itself has comes first,
/// but for libraries: theirs are of the release that the programs were built for.
pub(crate) fn debian_environment(tools: &Tools) -> Vec<(&'static str, OsString)> {
    let debian = tools.debian();
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    for folder in ["usr/sbin", "usr/bin"] {
        path.push(":");
        path.push(debian.join(folder));
    }
    vec![("PATH", path), ("LD_LIBRARY_PATH", tools.debian_libraries().into())]
}
