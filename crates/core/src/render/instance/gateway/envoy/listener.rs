//! The ports of a gateway: one for clients, one for those who watch the gateway, and one for the agent in its own pod.

use serde::Serialize;

use super::connection_manager::{self, ConnectionManager};
use super::message::{Address, Extension, TCP_KEEPALIVE, TcpKeepalive};
use super::{CLIENT_PORT, Envoy, PROBE_PORT, REPLAYED_BYTES};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Listener {
    name: &'static str,
    address: Address,
    per_connection_buffer_limit_bytes: u32,
    tcp_keepalive: TcpKeepalive,
    ignore_global_conn_limit: bool,
    filter_chains: Vec<FilterChain>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct FilterChain {
    filters: Vec<Extension<ConnectionManager>>,
}

/// The port that clients send queries to.
pub(super) fn clients(envoy: &Envoy) -> Listener {
    Listener {
        name: "listener",
        address: Address::everywhere(CLIENT_PORT, envoy.ipv6),
        per_connection_buffer_limit_bytes: REPLAYED_BYTES,
        tcp_keepalive: TCP_KEEPALIVE,
        ignore_global_conn_limit: false,
        filter_chains: filter_chains(connection_manager::clients(envoy)),
    }
}

/// The port that Prometheus and the probes of the pod ask. Clients that use up all connections do not lock them out.
pub(super) fn metrics(envoy: &Envoy) -> Listener {
    Listener {
        name: "stats_listener",
        address: Address::everywhere(envoy.metrics_port, envoy.ipv6),
        per_connection_buffer_limit_bytes: 64 * 1024,
        tcp_keepalive: TCP_KEEPALIVE,
        ignore_global_conn_limit: true,
        filter_chains: filter_chains(connection_manager::metrics()),
    }
}

/// The port on which the agent asks whether an engine is reached, from the same pod only. Clients that use up all connections
/// do not keep engines from being woken.
pub(super) fn probes(envoy: &Envoy) -> Listener {
    Listener {
        name: "probe_listener",
        address: Address::loopback(PROBE_PORT),
        per_connection_buffer_limit_bytes: 64 * 1024,
        tcp_keepalive: TCP_KEEPALIVE,
        ignore_global_conn_limit: true,
        filter_chains: filter_chains(connection_manager::probes(envoy)),
    }
}

fn filter_chains(manager: ConnectionManager) -> Vec<FilterChain> {
    let filters = vec![Extension {
        name: "envoy.filters.network.http_connection_manager",
        typed_config: manager,
    }];
    vec![FilterChain { filters }]
}
