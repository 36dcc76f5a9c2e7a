//! The processes that a cluster consists of.

use std::fmt;

use super::node::Node;
use crate::tools::Binary;

/// One process of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Holds the namespaces of a node.
    Network(Node),
    /// Makes the ports of the cluster reachable on the loopback address of the machine.
    Relay,
    /// The store of the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers of Kubernetes.
    KubeControllerManager,
    /// Finds nodes for pods.
    KubeScheduler,
    /// Runs containers.
    Containerd(Node),
    /// Runs pods.
    Kubelet(Node),
    /// Leads the addresses of Services to pods.
    KubeProxy(Node),
    /// Knows the names of Services.
    CoreDns,
    /// Makes the volumes of the default storage class.
    Provisioner,
}

impl Component {
    /// Those of the control plane, which every cluster has, in the order of dependence.
    pub const CONTROL_PLANE: [Self; 4] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
    ];

    /// Started first, all at once: these wait for nothing but the networks of `nodes`.
    pub(crate) fn first(nodes: &[Node]) -> Vec<Self> {
        let mut components = vec![Self::Etcd, Self::KubeApiserver];
        if !nodes.is_empty() {
            components.push(Self::Relay);
        }
        components.extend(nodes.iter().copied().map(Self::Containerd));
        components
    }

    /// Started once the API server responds: on a busy machine, some of these would give up earlier.
    pub(crate) fn then(nodes: &[Node]) -> Vec<Self> {
        let mut components = vec![Self::KubeControllerManager, Self::KubeScheduler];
        components.extend(
            nodes
                .iter()
                .flat_map(|node| [Self::Kubelet(*node), Self::KubeProxy(*node)]),
        );
        if !nodes.is_empty() {
            components.extend([Self::CoreDns, Self::Provisioner]);
        }
        components
    }

    /// Every component of a cluster with `nodes`.
    #[must_use]
    pub(crate) fn of(nodes: &[Node]) -> Vec<Self> {
        let networks = nodes.iter().copied().map(Self::Network).collect();
        [Self::first(nodes), Self::then(nodes), networks].concat()
    }

    /// The name of the component, which is that of its program if it has one.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Network(Node::First) => "network",
            Self::Network(Node::Second) => "network-2",
            Self::Relay => "relay",
            Self::Etcd => Binary::Etcd.name(),
            Self::KubeApiserver => Binary::KubeApiserver.name(),
            Self::KubeControllerManager => Binary::KubeControllerManager.name(),
            Self::KubeScheduler => Binary::KubeScheduler.name(),
            Self::Containerd(Node::First) => "containerd",
            Self::Containerd(Node::Second) => "containerd-2",
            Self::Kubelet(Node::First) => Binary::Kubelet.name(),
            Self::Kubelet(Node::Second) => "kubelet-2",
            Self::KubeProxy(Node::First) => Binary::KubeProxy.name(),
            Self::KubeProxy(Node::Second) => "kube-proxy-2",
            Self::CoreDns => Binary::CoreDns.name(),
            Self::Provisioner => "provisioner",
        }
    }

    /// Which of the tools it is, if it is one.
    pub(crate) const fn binary(self) -> Option<Binary> {
        match self {
            Self::Etcd => Some(Binary::Etcd),
            Self::KubeApiserver => Some(Binary::KubeApiserver),
            Self::KubeControllerManager => Some(Binary::KubeControllerManager),
            Self::KubeScheduler => Some(Binary::KubeScheduler),
            Self::Kubelet(_) => Some(Binary::Kubelet),
            Self::KubeProxy(_) => Some(Binary::KubeProxy),
            Self::CoreDns => Some(Binary::CoreDns),
            Self::Network(_) | Self::Relay | Self::Containerd(_) | Self::Provisioner => None,
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
