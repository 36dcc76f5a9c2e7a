//! HTTP settings for client connections, and which client headers are not trusted.

use serde::Serialize;

use super::access_log::{self, AccessLog};
use super::filters::{self, HttpFilter};
use super::local_reply::{self, LocalReplyConfig};
use super::message::{Extension, Span, StringMatch};
use super::routes::{self, RouteConfiguration};
use super::wake::{self, AddedHeader};
use super::{Envoy, REPLAYED_BYTES};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)]
pub(super) struct ConnectionManager {
    stat_prefix: &'static str,
    codec_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    access_log: Vec<AccessLog>,
    use_remote_address: bool,
    internal_address_config: InternalAddressConfig,
    early_header_mutation_extensions: Vec<Extension<HeaderMutation>>,
    common_http_protocol_options: CommonHttpProtocolOptions,
    http_protocol_options: Http1ProtocolOptions,
    http2_protocol_options: Http2ProtocolOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    http1_safe_max_connection_duration: Option<bool>,
    max_request_headers_kb: u32,
    request_headers_timeout: Span,
    stream_idle_timeout: Span,
    normalize_path: bool,
    merge_slashes: bool,
    path_with_escaped_slashes_action: &'static str,
    server_header_transformation: &'static str,
    preserve_external_request_id: bool,
    always_set_request_id_in_response: bool,
    request_id_extension: RequestIdExtension,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_reply_config: Option<LocalReplyConfig>,
    http_filters: Vec<HttpFilter>,
    route_config: RouteConfiguration,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct InternalAddressConfig {
    cidr_ranges: Vec<CidrRange>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CidrRange {
    address_prefix: &'static str,
    prefix_len: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
)]
struct HeaderMutation {
    mutations: Vec<Mutation>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mutation {
    RemoveOnMatch(RemoveOnMatch),
    Append(AddedHeader),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RemoveOnMatch {
    key_matcher: StringMatch,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommonHttpProtocolOptions {
    idle_timeout: Span,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connection_duration: Option<Span>,
    max_headers_count: u32,
    headers_with_underscores_action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Http1ProtocolOptions {
    ignore_http_11_upgrade: Vec<StringMatch>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Http2ProtocolOptions {
    max_concurrent_streams: u32,
    initial_stream_window_size: u32,
    initial_connection_window_size: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RequestIdExtension {
    typed_config: UuidRequestId,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig"
)]
struct UuidRequestId {
    pack_trace_reason: bool,
}

/// How long clients may keep a connection, in seconds. Then the next answer asks them to open another, which loses no query
/// and leads to the pods that there are by now: a pod that is to stop has no clients any more when it ends.
pub(in crate::render::instance::gateway) const CONNECTION_LIFE: u64 = 5;

/// Requests that a client may have under way on one HTTP/2 connection.
const STREAMS: u32 = 100;

/// Flow-control window of HTTP/2 connections on which no bodies are expected: the minimum.
const SMALL_WINDOW: u32 = 65_535;

/// Clients that may send Envoy control headers. An empty list means "everyone with a private address", so it names an
/// address that no connection comes from.
const NOBODY: CidrRange = CidrRange {
    address_prefix: "0.0.0.0",
    prefix_len: 32,
};

/// For the port that receives queries of clients.
pub(super) fn clients(envoy: &Envoy) -> ConnectionManager {
    let strict = strict("gateway", filters::clients(envoy), routes::to_engines(envoy));
    ConnectionManager {
        access_log: vec![access_log::access_log()],
        local_reply_config: Some(local_reply::local_replies()),
        common_http_protocol_options: CommonHttpProtocolOptions {
            max_connection_duration: Some(Span::seconds(CONNECTION_LIFE)),
            ..strict.common_http_protocol_options
        },
        early_header_mutation_extensions: vec![with_framing()],
        stream_idle_timeout: Span::of(wake::longest_stillness(envoy)),
        http2_protocol_options: Http2ProtocolOptions {
            // Envoy holds as much of a request back before it has a route, and stops reading. A window that is smaller than
            // what is kept for another attempt would never be opened again: what is kept alone would fill it.
            initial_stream_window_size: REPLAYED_BYTES,
            // Room for all of them: requests that wait for an engine do not keep those for another from being read.
            initial_connection_window_size: STREAMS * REPLAYED_BYTES,
            ..strict.http2_protocol_options
        },
        // Otherwise Envoy may close a connection while the next query is on its way.
        http1_safe_max_connection_duration: Some(true),
        ..strict
    }
}

/// For the port that Prometheus and probes read.
pub(super) fn metrics() -> ConnectionManager {
    strict("stats", filters::metrics(), routes::to_metrics())
}

/// For the port on which the agent checks whether engines are reachable.
pub(super) fn probes(envoy: &Envoy) -> ConnectionManager {
    strict("probe", filters::probes(), routes::to_readiness(envoy))
}

fn strict(
    stat_prefix: &'static str,
    http_filters: Vec<HttpFilter>,
    route_config: RouteConfiguration,
) -> ConnectionManager {
    ConnectionManager {
        stat_prefix,
        // HTTP/1.1, or HTTP/2 if the client begins with it.
        codec_type: "AUTO",
        access_log: Vec::new(),
        use_remote_address: true,
        internal_address_config: InternalAddressConfig {
            cidr_ranges: vec![NOBODY],
        },
        early_header_mutation_extensions: vec![without_envoy_headers()],
        common_http_protocol_options: CommonHttpProtocolOptions {
            idle_timeout: Span::seconds(900),
            max_connection_duration: None,
            max_headers_count: 100,
            // Some servers take `X_Name` for `X-Name`: what is not checked under one name must not arrive under the other.
            headers_with_underscores_action: "REJECT_REQUEST",
        },
        http_protocol_options: Http1ProtocolOptions {
            // Envoy refuses upgrades only where a route is known, and here it is not before the selection.
            ignore_http_11_upgrade: vec![StringMatch::SafeRegex { regex: ".*" }],
        },
        http2_protocol_options: Http2ProtocolOptions {
            max_concurrent_streams: STREAMS,
            initial_stream_window_size: SMALL_WINDOW,
            initial_connection_window_size: SMALL_WINDOW,
        },
        http1_safe_max_connection_duration: None,
        max_request_headers_kb: 60,
        // Headers must arrive soon. A body may take any time as long as data arrives: there is no limit for whole requests,
        // which would cut off long uploads.
        request_headers_timeout: Span::seconds(10),
        stream_idle_timeout: Span::seconds(300),
        // Nothing is decided by the path, so the engine gets it as the client wrote it.
        normalize_path: false,
        merge_slashes: false,
        path_with_escaped_slashes_action: "KEEP_UNCHANGED",
        server_header_transformation: "PASS_THROUGH",
        // One id for a query in the logs of the client, the gateway and the engine.
        preserve_external_request_id: true,
        always_set_request_id_in_response: true,
        request_id_extension: RequestIdExtension {
            typed_config: UuidRequestId {
                pack_trace_reason: false,
            },
        },
        local_reply_config: None,
        http_filters,
        route_config,
    }
}

/// Headers whose names begin like this control Envoy. Those from clients are removed.
fn without_envoy_headers() -> Extension<HeaderMutation> {
    early(vec![without(StringMatch::Prefix("x-envoy-"))])
}

/// The same, and records the transfer coding of the body for the script.
fn with_framing() -> Extension<HeaderMutation> {
    early(vec![
        without(StringMatch::Prefix("x-envoy-")),
        without(wake::framing_of_clients()),
        Mutation::Append(wake::framing()),
    ])
}

fn without(key_matcher: StringMatch) -> Mutation {
    Mutation::RemoveOnMatch(RemoveOnMatch { key_matcher })
}

fn early(mutations: Vec<Mutation>) -> Extension<HeaderMutation> {
    Extension {
        name: "envoy.http.early_header_mutation.header_mutation",
        typed_config: HeaderMutation { mutations },
    }
}
