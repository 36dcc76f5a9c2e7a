//! The gateway: Envoy, the agent beside it that wakes engines, and the rights to do so.

pub mod envoy;

mod config_map;
mod container;
mod deployment;
mod disruption_budget;
mod role;
mod role_binding;
mod service;
mod service_account;
mod wake_agent;

use serde_json::Value;

use crate::canonical;
use crate::resolve::instance::EffectiveInstance;

pub use config_map::gateway_config_map;
pub use deployment::gateway_deployment;
pub use disruption_budget::gateway_disruption_budget;
pub use role::gateway_role;
pub use role_binding::gateway_role_binding;
pub use service::gateway_service;
pub use service_account::gateway_service_account;

/// Names of the operator's sidecar containers. A template with such a container is rejected.
pub(crate) const GATEWAY_CONTAINERS: [&str; 1] = [wake_agent::NAME];
/// Names of the operator's volumes. A template with such a volume is rejected.
pub(crate) const GATEWAY_VOLUMES: [&str; 3] = [CONFIG_VOLUME, TEMPORARY_VOLUME, TOKEN_VOLUME];
/// The volume with the token of the gateway, which containers of users cannot mount.
pub(crate) const TOKEN_VOLUME: &str = "wake-agent-token";
const CONFIG_VOLUME: &str = "config-volume";
const TEMPORARY_VOLUME: &str = "tmp";

/// The termination grace period of a pod, in seconds.
const GRACE_PERIOD: i64 = 15;

/// Ports of the pods that are in use: for clients, for the admin interface of Envoy, for the wake agent, and for the
/// readiness probes that the agent sends to engines through Envoy. The metrics port is not among them.
pub(crate) const GATEWAY_PORTS: [u16; 4] = [envoy::CLIENT_PORT, envoy::ADMIN_PORT, AGENT_PORT, PROBE_PORT];
const AGENT_PORT: u16 = 9902;
const PROBE_PORT: u16 = 9903;
const CLIENT_PORT_NAME: &str = "http";
const METRICS_PORT_NAME: &str = "metrics";

/// The only key of the ConfigMap, which is also the name of the file.
const CONFIG_FILE: &str = "envoy.yaml";

/// The configuration of Envoy for this instance.
fn bootstrap(instance: &EffectiveInstance) -> Value {
    canonical::to_json(&envoy::bootstrap(&settings(instance)))
}

/// What the configuration of Envoy depends on, for this instance.
fn settings(instance: &EffectiveInstance) -> envoy::Envoy<'_> {
    envoy::Envoy {
        namespace: &instance.namespace,
        cluster_domain: &instance.cluster_domain,
        metrics_port: instance.gateway.metrics_port,
        ipv6: instance.gateway.ipv6,
        hold_timeout: instance.gateway.hold_timeout,
    }
}
