//! kube-apiserver, with authorization on and an audit log.

use super::{etcd, serving};
use crate::Result;
use crate::state::layout::{Layout, write_private};
use crate::topology::{Node, SERVICES};

/// More than any disk holds.
const AUDIT_LOG_MEGABYTES: u32 = 100_000_000;
const AUDIT_POLICY: &str = "audit-policy.yaml";
/// Logs the metadata of each request once, except for those of Kubernetes itself, which are the majority.
const AUDIT_POLICY_TEXT: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ['system:serviceaccounts:kube-system']
- level: None
  users: ['system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler']
- level: Metadata
";

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
        format!("--service-cluster-ip-range={SERVICES}"),
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
        // Never rotated, so that a reader may remember a place in it. The default is 100 MB, which a test run exceeds.
        format!("--audit-log-maxsize={AUDIT_LOG_MEGABYTES}"),
    ]);
    if layout.nodes().is_empty() {
        // The addresses of an Endpoints object may not be loopback ones, and this server listens on no other.
        arguments.push("--endpoint-reconciler-type=none".to_owned());
    } else {
        arguments.extend([
            // Pods must reach it too. The network belongs to the cluster, so nothing else can.
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={}", Node::First.address()),
            // The names of nodes cannot be resolved.
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
