//! Where `deploy/operator.yaml` installs the operator.

/// The namespace of the operator.
pub(super) const OPERATOR_NAMESPACE: &str = "firebolt-system";
/// The label selector of its pods.
pub(super) const OPERATOR_LABELS: &str = "app.kubernetes.io/name=firebolt-operator";
/// The lease of its leader.
pub(super) const LEASE: &str = "firebolt-operator";
/// The number of its replicas.
pub(super) const REPLICAS: usize = 2;
