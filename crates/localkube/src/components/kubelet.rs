//! kubelet. It shares the machine with everything else, so it evicts nothing and reserves nothing.

use serde_json::json;

use super::containerd;
use crate::process::cgroups;
use crate::state::layout::{Layout, write_private};
use crate::topology::Node;
use crate::{Result, identity};

pub(super) fn arguments(layout: &Layout, node: Node) -> Vec<String> {
    vec![
        format!("--config={}", layout.node(node, "kubelet.yaml").display()),
        format!("--kubeconfig={}", identity::path_of_node(layout, node).display()),
        format!("--hostname-override={node}"),
        format!("--node-ip={}", node.address()),
    ]
}

pub(super) fn write_configuration(layout: &Layout, node: Node) -> Result<()> {
    let never = "0%";
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address(),
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": layout.pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        // Does not depend on systemd.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "cgroupRoot": cgroups::of_node(layout.dir(), node),
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "evictionHard": {
            "memory.available": never,
            "nodefs.available": never,
            "nodefs.inodesFree": never,
            "imagefs.available": never,
            "imagefs.inodesFree": never,
        },
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": false,
        "clusterDNS": [super::coredns::ADDRESS],
        "clusterDomain": "cluster.local",
        // The machine's name servers cannot be reached from the network of the cluster.
        "resolvConf": "",
        "maxPods": 240,
        "serializeImagePulls": false,
        "eventRecordQPS": 0,
    });
    write_private(
        &layout.node(node, "kubelet.yaml"),
        format!("{configuration:#}\n").as_bytes(),
    )
}

/// Whether the text of a Node says that it is ready.
pub(super) fn is_ready(node: &str) -> bool {
    let node: serde_json::Value = serde_json::from_str(node).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}
