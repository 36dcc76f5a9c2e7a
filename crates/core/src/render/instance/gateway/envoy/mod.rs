//! The configuration that Envoy starts with: which engine a request is for, how to reach it, and what to do if it cannot
//! be reached. A request for a stopped engine is held until the engine is ready (see `wake.lua`).
//!
//! The configuration names no engine. A request says which engine it wants (see `select.lua`), the authority of the
//! request becomes the name of that engine's Service, and Envoy makes a cluster for each name on first use. So creating,
//! scaling, switching and deleting engines never changes the configuration, and never restarts a gateway.
//!
//! Everything is a typed structure that mirrors the message of the same name in Envoy's API; only fields that we set are
//! in it. Defaults of Envoy that matter to us are spelled out, so that another version of Envoy behaves the same.

#![expect(
    clippy::enum_variant_names,
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "the names and the shapes are those of Envoy's API"
)]

mod access_log;
mod admin;
mod clusters;
mod connection_manager;
mod filters;
mod listener;
mod local_reply;
mod message;
mod overload;
mod retry;
mod routes;
mod script;
mod select;
mod stats;
mod wake;

use std::time::Duration;

use serde::Serialize;

#[cfg(test)]
pub(super) use connection_manager::CONNECTION_LIFE;
pub(super) use select::authority_suffix;

/// How much of a request Envoy may buffer, which is also the largest body that it can send again.
const REPLAYED_BYTES: u32 = 2 * 1024 * 1024;

/// Where clients send their queries. The Service of the gateway points here.
pub const CLIENT_PORT: u16 = 8080;
/// Where Envoy's own commands are served, to processes in the same pod only.
pub const ADMIN_PORT: u16 = 9901;
/// Where the agent that wakes engines listens, to processes in the same pod only.
pub const AGENT_PORT: u16 = 9902;
/// The port on which that agent checks whether an engine is reachable, from the same pod only.
pub const PROBE_PORT: u16 = 9903;
/// The path on the client port and on the metrics port that reports whether this gateway accepts requests.
pub(crate) const HEALTH_PATH: &str = "/healthz";
/// The path on the metrics port that Prometheus reads.
pub(crate) const METRICS_PATH: &str = "/stats/prometheus";

/// The path on which an engine pod says whether it takes queries.
pub(crate) const READY_PATH: &str = "/health/ready";

/// What the configuration of a gateway depends on. No engine is in it.
#[derive(Debug, Clone, Copy)]
pub struct Envoy<'a> {
    /// The namespace of the instance, where its engines are too.
    pub namespace: &'a str,
    /// The domain under which the cluster's Services have their names.
    pub cluster_domain: &'a str,
    /// Where Prometheus and the probes of the pod ask.
    pub metrics_port: u16,
    /// Whether pods of this cluster have IPv6 addresses, alone or beside IPv4 ones.
    pub ipv6: bool,
    /// How long the agent lets a request wait for its engine.
    pub hold_timeout: Duration,
}

/// The configuration that Envoy starts with, ready to be written as YAML or JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bootstrap {
    admin: admin::Admin,
    static_resources: StaticResources,
    stats_config: stats::StatsConfig,
    overload_manager: overload::OverloadManager,
    deferred_stat_options: overload::DeferredStatOptions,
    layered_runtime: overload::LayeredRuntime,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct StaticResources {
    listeners: Vec<listener::Listener>,
    clusters: Vec<clusters::Cluster>,
}

/// The configuration of a gateway.
#[must_use]
pub fn bootstrap(envoy: &Envoy) -> Bootstrap {
    Bootstrap {
        admin: admin::admin(),
        static_resources: StaticResources {
            listeners: vec![
                listener::clients(envoy),
                listener::metrics(envoy),
                listener::probes(envoy),
            ],
            clusters: vec![
                clusters::engines(envoy),
                clusters::wake_agent(),
                clusters::admin(),
                clusters::metrics(),
            ],
        },
        stats_config: stats::stats_config(envoy),
        overload_manager: overload::overload_manager(),
        deferred_stat_options: overload::deferred_stat_options(),
        layered_runtime: overload::layered_runtime(),
    }
}

#[cfg(test)]
mod tests;
