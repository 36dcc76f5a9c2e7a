//! What an engine is started with.

use std::net::{IpAddr, Ipv4Addr};

use firebolt_api::Duration;

/// Where the engine of a pod takes queries.
pub const QUERY_PORT: u16 = 3473;
/// Where the engine of a pod tells of its health.
pub const HEALTH_PORT: u16 = 8122;
/// Where the engine of a pod serves metrics.
pub const METRICS_PORT: u16 = 9090;

/// What an engine is started with, as flags or from the environment.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// The address that all ports are on
    #[arg(long, env = "ENGINE_ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub address: IpAddr,
    /// The port that takes queries
    #[arg(long, env = "ENGINE_QUERY_PORT", default_value_t = QUERY_PORT)]
    pub query_port: u16,
    /// The port that tells of health
    #[arg(long, env = "ENGINE_HEALTH_PORT", default_value_t = HEALTH_PORT)]
    pub health_port: u16,
    /// The port that serves metrics
    #[arg(long, env = "ENGINE_METRICS_PORT", default_value_t = METRICS_PORT)]
    pub metrics_port: u16,
    /// The name that answers carry. In a pod it is the name of the host
    #[arg(long, env = "HOSTNAME", default_value = "engine")]
    pub pod_name: String,
    /// How long running queries may take from the beginning of the shutdown
    #[arg(long, env = "ENGINE_SHUTDOWN_LIMIT", default_value = "55s")]
    pub shutdown_limit: Duration,
}

impl Settings {
    /// The engine of a pod: the ports of the contract on the given address.
    #[must_use]
    pub fn of_pod(name: &str, address: impl Into<IpAddr>) -> Self {
        Self {
            address: address.into(),
            query_port: QUERY_PORT,
            health_port: HEALTH_PORT,
            metrics_port: METRICS_PORT,
            pod_name: name.to_owned(),
            shutdown_limit: Duration::from_secs(55),
        }
    }
}
