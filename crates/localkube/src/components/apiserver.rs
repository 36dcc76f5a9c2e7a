//! kube-apiserver, with authorization on and an audit log.

use super::{etcd, serving};
use crate::Result;
use crate::layout::{Layout, write_private};
use crate::node::Node;

const AUDIT_POLICY: &str = "audit-policy.yaml";
/// Who did what to which object, once for each request.
const AUDIT_POLICY_TEXT: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";
/// Addresses of Services. They are handed out, but without a node nothing routes them.
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The first of them, which is that of the API server.
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

pub(super) fn write_configuration(layout: &Layout) -> Result<()> {
    write_private(&layout.file(AUDIT_POLICY), AUDIT_POLICY_TEXT.as_bytes())
}

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, layout.ports().apiserver);
    arguments.extend([
        format!("--etcd-servers={}", etcd::CLIENT_URL),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!(
            "--service-account-key-file={}",
            layout.pki("service-accounts.pub").display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            layout.pki("service-accounts.key").display()
        ),
        format!("--audit-policy-file={}", layout.file(AUDIT_POLICY).display()),
        format!("--audit-log-path={}", layout.audit_log().display()),
    ]);
    if layout.nodes().is_empty() {
        // The addresses of an Endpoints object may not be loopback ones, and this server listens on no other.
        arguments.push("--endpoint-reconciler-type=none".to_owned());
    } else {
        arguments.extend([
            // Pods are to reach it as well. The network is the cluster's own, so nobody else does.
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={}", Node::First.address()),
            // Nobody resolves the names of nodes.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!(
                "--kubelet-client-certificate={}",
                layout.pki("kubelet-client.crt").display()
            ),
            format!("--kubelet-client-key={}", layout.pki("kubelet-client.key").display()),
        ]);
    }
    arguments
}
