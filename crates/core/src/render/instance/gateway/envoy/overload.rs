//! What a gateway refuses in order to stay alive, and which switches of Envoy are set for good.

use serde::Serialize;

use super::message::Extension;

/// Far more than clients of one gateway need, and few enough that idle connections alone cannot fill its memory.
pub(super) const MAX_CLIENT_CONNECTIONS: u32 = 10_000;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OverloadManager {
    resource_monitors: Vec<Extension<MaxConnections>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
)]
struct MaxConnections {
    max_active_downstream_connections: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DeferredStatOptions {
    enable_deferred_creation_stats: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LayeredRuntime {
    layers: Vec<RuntimeLayer>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RuntimeLayer {
    name: &'static str,
    static_layer: Switches,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Switches {
    #[serde(rename = "http.async_response_buffer_limit")]
    longest_answer_to_scripts: u32,
}

pub(super) fn overload_manager() -> OverloadManager {
    OverloadManager {
        resource_monitors: vec![Extension {
            name: "envoy.resource_monitors.global_downstream_max_connections",
            typed_config: MaxConnections {
                max_active_downstream_connections: MAX_CLIENT_CONNECTIONS,
            },
        }],
    }
}

/// The metrics of an engine begin with its first query: names that clients make up cost less memory.
pub(super) fn deferred_stat_options() -> DeferredStatOptions {
    DeferredStatOptions {
        enable_deferred_creation_stats: true,
    }
}

/// One fixed layer and nothing else: without a layer of its own, the admin port cannot change how Envoy behaves.
pub(super) fn layered_runtime() -> LayeredRuntime {
    LayeredRuntime {
        layers: vec![RuntimeLayer {
            name: "fixed",
            static_layer: Switches {
                // The agent's refusals are short. An answer that is longer counts as none.
                longest_answer_to_scripts: 64 * 1024,
            },
        }],
    }
}
