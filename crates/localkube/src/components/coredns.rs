//! CoreDNS, with the settings that kubeadm gives it: how long an answer may be stale matters to what is tested.

use crate::Result;
use crate::state::layout::{Layout, write_private};
use crate::topology::Node;

/// Where pods find it: at the first node, without a Service in between.
pub(super) const ADDRESS: &str = Node::First.address();
/// The port of its readiness endpoint.
pub(super) const READY_PORT: u16 = 8181;

const COREFILE: &str = "Corefile";

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    vec![format!("-conf={}", layout.file(COREFILE).display())]
}

pub(super) fn write_configuration(layout: &Layout) -> Result<()> {
    let kubeconfig = layout.kubeconfig();
    let text = format!(
        "\
.:53 {{
    bind {ADDRESS}
    errors
    ready {ADDRESS}:{READY_PORT}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig \"{}\"
        ttl 30
    }}
    cache 30 {{
        disable success cluster.local
        disable denial cluster.local
    }}
}}
",
        kubeconfig.display()
    );
    write_private(&layout.file(COREFILE), text.as_bytes())
}
