//! The configuration of Envoy.

use serde::Serialize;

/// The port for clients.
pub const CLIENT_PORT: u16 = 8080;
/// The port for the administration of Envoy.
pub const ADMIN_PORT: u16 = 9901;
/// The path that tells whether Envoy is healthy.
pub const HEALTH_PATH: &str = "/healthz";

/// What the configuration of a gateway depends on. No engine is in it.
pub struct Envoy<'a> {
    /// The namespace of the engines.
    pub namespace: &'a str,
    /// The DNS domain of the cluster.
    pub cluster_domain: &'a str,
    /// The port for metrics.
    pub metrics_port: u16,
    /// Whether to listen on IPv6 addresses.
    pub ipv6: bool,
}

/// The configuration with which Envoy starts.
#[must_use]
pub fn bootstrap(envoy: &Envoy) -> impl Serialize {
    serde_json::json!({
        "namespace": envoy.namespace, "domain": envoy.cluster_domain, "metrics": envoy.metrics_port, "ipv6": envoy.ipv6,
    })
}
