//! kube-proxy, which makes the addresses of Services lead to pods.

use serde_json::json;

use crate::state::layout::{Layout, write_private};
use crate::topology::{Node, PODS};
use crate::{Result, identity};

/// The port of its health endpoint, at the address of its node.
pub(super) const HEALTH_PORT: u16 = 10256;

pub(super) fn arguments(layout: &Layout, node: Node) -> Vec<String> {
    vec![format!("--config={}", layout.node(node, "kube-proxy.yaml").display())]
}

pub(super) fn write_configuration(layout: &Layout, node: Node) -> Result<()> {
    let configuration = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": identity::path_of_proxy(layout) },
        "mode": "nftables",
        "clusterCIDR": PODS,
        "hostnameOverride": node.name(),
        "bindAddress": node.address(),
        "healthzBindAddress": format!("{}:{HEALTH_PORT}", node.address()),
        // The table belongs to the machine, and its size suffices here.
        "conntrack": { "maxPerCore": 0 },
    });
    write_private(
        &layout.node(node, "kube-proxy.yaml"),
        format!("{configuration:#}\n").as_bytes(),
    )
}
