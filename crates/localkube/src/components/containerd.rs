//! containerd, as Debian packages it, with runc and the network plugins beside it.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::state::layout::{Layout, write_private};
use crate::tools::Tools;
use crate::topology::Node;
use crate::{Error, Result};

/// Where it listens, in the namespace of its node.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";
/// The sandbox image, which holds the namespaces of a pod. No registry can be reached, so users have to import it.
pub const SANDBOX_IMAGE: &str = "localhost/localkube/pause:1";

pub(super) fn arguments(layout: &Layout, node: Node) -> Vec<String> {
    vec![format!("--config={}", layout.node(node, "containerd.toml").display())]
}

pub(super) fn write_configuration(layout: &Layout, tools: &Tools, node: Node) -> Result<()> {
    let debian = tools.debian();
    let network = layout.node(node, "network");
    let text = configuration(&debian, &network);
    write_private(&layout.node(node, "containerd.toml"), text.as_bytes())?;
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            // A pod may reach itself by the address of its Service.
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": node.pods() }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    fs::create_dir(&network).map_err(Error::io("create", &network))?;
    write_private(&network.join("pods.conflist"), format!("{list:#}\n").as_bytes())
}

fn configuration(debian: &Path, network: &Path) -> String {
    // The strings of this format are written like those of JSON.
    let text = |value: &Path| json!(value.display().to_string());
    let (runc, plugins, network) = (
        text(&debian.join("usr/sbin/runc")),
        text(&debian.join("usr/lib/cni")),
        text(network),
    );
    format!(
        r#"version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
# The machine may itself be a container, where neither is to be had.
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {plugins}
conf_dir = {network}

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = {runc}
"#
    )
}
