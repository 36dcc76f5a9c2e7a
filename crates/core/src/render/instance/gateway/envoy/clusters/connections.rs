//! How a gateway connects to the pods of engines: once for each query.
//!
//! A connection that was used before may be closed by the engine just when the next query is on its way. It is
//! then unknown whether the query has begun to run, so it could not be repeated. A connection that cannot be opened is safe to
//! try again.

use serde::Serialize;

use super::super::message::{Empty, TCP_KEEPALIVE, TcpKeepalive};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProtocolOptions {
    #[serde(rename = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions")]
    http: HttpProtocolOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)]
struct HttpProtocolOptions {
    common_http_protocol_options: CommonHttpProtocolOptions,
    explicit_http_config: ExplicitHttpConfig,
    upstream_http_protocol_options: UpstreamHttpProtocolOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommonHttpProtocolOptions {
    max_requests_per_connection: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ExplicitHttpConfig {
    http_protocol_options: Empty,
}

/// Of no effect without TLS; Envoy wants them for clusters that are made from names.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct UpstreamHttpProtocolOptions {
    auto_sni: bool,
    auto_san_validation: bool,
}

pub(super) fn protocol_options() -> ProtocolOptions {
    ProtocolOptions {
        http: HttpProtocolOptions {
            common_http_protocol_options: CommonHttpProtocolOptions {
                max_requests_per_connection: 1,
            },
            explicit_http_config: ExplicitHttpConfig {
                http_protocol_options: Empty {},
            },
            upstream_http_protocol_options: UpstreamHttpProtocolOptions {
                auto_sni: true,
                auto_san_validation: true,
            },
        },
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ConnectionOptions {
    tcp_keepalive: TcpKeepalive,
}

pub(super) fn connection_options() -> ConnectionOptions {
    ConnectionOptions {
        tcp_keepalive: TCP_KEEPALIVE,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BindConfig {
    socket_options: Vec<SocketOption>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct SocketOption {
    description: &'static str,
    level: u32,
    name: u32,
    buf_value: &'static str,
    state: &'static str,
}

/// The side that closes a connection may not use its port for a minute. With one connection per query, some 400 queries a second to
/// one pod would use up all ports. So connections end with a reset, which keeps no port, once the answer is complete.
pub(super) fn bind_config() -> BindConfig {
    BindConfig {
        socket_options: vec![SocketOption {
            description: "SO_LINGER of no time at all",
            level: 1,
            name: 13,
            // The two 32-bit numbers 1 (on) and 0 (seconds), lowest byte first, in Base64.
            buf_value: "AQAAAAAAAAA=",
            state: "STATE_PREBIND",
        }],
    }
}
