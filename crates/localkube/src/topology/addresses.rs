//! Addresses that every cluster has: only the cluster itself can reach them.

/// The addresses of all pods, whatever their node.
pub(crate) const PODS: &str = "10.244.0.0/16";
/// Addresses of Services. They are handed out, but without a node nothing routes them.
pub(crate) const SERVICES: &str = "10.96.0.0/16";
/// The first of them, which is that of the API server.
pub(crate) const KUBERNETES_SERVICE: &str = "10.96.0.1";
