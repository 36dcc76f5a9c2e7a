//! kube-apiserver, with authorization on and an audit log.

use super::{etcd, serving};
use crate::Result;
use crate::layout::{Layout, write_private};

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

pub(super) fn write_configuration(layout: &Layout) -> Result<()> {
    write_private(&layout.file(AUDIT_POLICY), AUDIT_POLICY_TEXT.as_bytes())
}

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, layout.ports.apiserver);
    arguments.extend([
        format!("--etcd-servers={}", etcd::CLIENT_URL),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        // The addresses of an Endpoints object may not be loopback ones, and this server listens on no other.
        "--endpoint-reconciler-type=none".to_owned(),
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
    arguments
}
