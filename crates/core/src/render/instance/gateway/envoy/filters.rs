//! What happens to a request between the client's connection and the route.

use serde::Serialize;

use super::message::{Extension, HeaderMatch, Span, StringMatch};
use super::{Envoy, HEALTH_PATH, routes, script};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum HttpFilter {
    HealthCheck(Extension<HealthCheckFilter>),
    Lua(Extension<Lua>),
    DynamicForwardProxy(Extension<DynamicForwardProxy>),
    Router(Extension<Router>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck"
)]
pub(super) struct HealthCheckFilter {
    pass_through_mode: bool,
    headers: Vec<HeaderMatch>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
)]
pub(super) struct Lua {
    default_source_code: DataSource,
    filter_context: script::Context,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct DataSource {
    inline_string: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig"
)]
pub(super) struct DynamicForwardProxy {
    sub_cluster_config: SubClusterConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct SubClusterConfig {
    cluster_init_timeout: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
)]
pub(super) struct Router {
    suppress_envoy_headers: bool,
}

/// The way of a query. Health comes first, so that a probe needs no engine and wakes none.
pub(super) fn clients(envoy: &Envoy) -> Vec<HttpFilter> {
    vec![
        health_check(),
        lua(envoy),
        dynamic_forward_proxy(Span::seconds(5)),
        router(),
    ]
}

/// The way of a request to the metrics port.
pub(super) fn metrics() -> Vec<HttpFilter> {
    vec![health_check(), router()]
}

/// The way of the agent's question whether an engine is reached: that of a query, without the selection.
pub(super) fn probes() -> Vec<HttpFilter> {
    vec![dynamic_forward_proxy(routes::PROBE_TIMEOUT), router()]
}

fn health_check() -> HttpFilter {
    HttpFilter::HealthCheck(Extension {
        name: "envoy.filters.http.health_check",
        typed_config: HealthCheckFilter {
            pass_through_mode: false,
            headers: vec![HeaderMatch {
                name: ":path",
                string_match: StringMatch::Exact(HEALTH_PATH),
            }],
        },
    })
}

fn lua(envoy: &Envoy) -> HttpFilter {
    HttpFilter::Lua(Extension {
        name: "envoy.filters.http.lua",
        typed_config: Lua {
            default_source_code: DataSource {
                inline_string: script::script(),
            },
            filter_context: script::context(envoy),
        },
    })
}

/// The time is that for the first look-up of a name, before the route counts its own.
fn dynamic_forward_proxy(cluster_init_timeout: Span) -> HttpFilter {
    HttpFilter::DynamicForwardProxy(Extension {
        name: "envoy.filters.http.dynamic_forward_proxy",
        typed_config: DynamicForwardProxy {
            sub_cluster_config: SubClusterConfig { cluster_init_timeout },
        },
    })
}

fn router() -> HttpFilter {
    HttpFilter::Router(Extension {
        name: "envoy.filters.http.router",
        typed_config: Router {
            suppress_envoy_headers: true,
        },
    })
}
