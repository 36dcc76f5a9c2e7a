//! The agent that wakes engines, in the pod beside Envoy. Queries must not need it: what is here makes Envoy notice soon
//! that it is gone, and leaves nothing waiting for it.

use serde::Serialize;

use super::super::message::{Percent, Span};
use super::super::{AGENT_PORT, HEALTH_PATH};
use super::Cluster;
use super::health_check::{self, HealthCheck};
use super::limits::{self, CircuitBreakers};
use super::loopback::{self, LoadAssignment};

/// The name of this cluster, for the script.
pub(crate) const WAKE_AGENT: &str = "wake_agent";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AgentCluster {
    name: &'static str,
    #[serde(rename = "type")]
    discovery: &'static str,
    connect_timeout: Span,
    load_assignment: LoadAssignment,
    circuit_breakers: CircuitBreakers,
    health_checks: Vec<HealthCheck>,
    common_lb_config: CommonLbConfig,
    typed_extension_protocol_options: ProtocolOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommonLbConfig {
    healthy_panic_threshold: Percent,
    update_merge_window: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ProtocolOptions {
    #[serde(rename = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions")]
    http: HttpProtocolOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)]
struct HttpProtocolOptions {
    explicit_http_config: ExplicitHttpConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ExplicitHttpConfig {
    http2_protocol_options: Http2ProtocolOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Http2ProtocolOptions {
    initial_stream_window_size: u32,
    initial_connection_window_size: u32,
    connection_keepalive: Keepalive,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Keepalive {
    interval: Span,
    timeout: Span,
}

pub(crate) fn wake_agent() -> Cluster {
    Cluster::WakeAgent(Box::new(AgentCluster {
        name: WAKE_AGENT,
        discovery: "STATIC",
        connect_timeout: Span::milliseconds(250),
        load_assignment: loopback::host(WAKE_AGENT, AGENT_PORT),
        circuit_breakers: limits::of_the_agent(),
        health_checks: vec![health_check::alive(HEALTH_PATH)],
        common_lb_config: CommonLbConfig {
            // Without a healthy agent, requests are not sent to it.
            healthy_panic_threshold: Percent { value: 0 },
            update_merge_window: Span::ZERO,
        },
        typed_extension_protocol_options: protocol_options(),
    }))
}

/// Thousands of requests may be held by the agent. With HTTP/2 they share a few connections, and Envoy can check that
/// the agent is alive while it waits for a response. If it is not, the connection is closed, and held requests
/// continue. Health checks cannot do that: they only keep further requests away.
fn protocol_options() -> ProtocolOptions {
    let connection_keepalive = Keepalive {
        interval: Span::seconds(1),
        // Long enough for an agent on a very busy machine: otherwise, held requests would be lost.
        timeout: Span::seconds(3),
    };
    ProtocolOptions {
        http: HttpProtocolOptions {
            explicit_http_config: ExplicitHttpConfig {
                http2_protocol_options: Http2ProtocolOptions {
                    // Metrics are the only long responses, and a slow reader must not delay the short ones.
                    initial_stream_window_size: 65_535,
                    initial_connection_window_size: 1024 * 1024,
                    connection_keepalive,
                },
            },
        },
    }
}
