//! What an engine is started with.

use std::net::IpAddr;

use crate::client::Endpoint;

/// Where the engine of a pod takes queries.
pub const QUERY_PORT: u16 = 3473;
/// Where the engine of a pod serves its health checks.
pub const HEALTH_PORT: u16 = 8122;
/// Where the engine of a pod serves metrics.
pub const METRICS_PORT: u16 = 9090;

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address that all ports are on.
    pub address: IpAddr,
    /// The port that takes queries.
    pub(crate) query_port: u16,
    /// The port of the health checks.
    pub(crate) health_port: u16,
    /// The port that serves metrics.
    pub metrics_port: u16,
    /// The name that answers and reports carry.
    pub(crate) pod_name: String,
    /// Where executions are reported, if anywhere.
    pub ledger: Option<Endpoint>,
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
            ledger: None,
        }
    }
}
