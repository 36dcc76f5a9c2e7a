//! Which cluster a request goes to.

use serde::Serialize;

use super::message::{HeaderMatch, Span, StringMatch};
use super::retry::{self, RetryPolicy};
use super::wake::{self, AddedHeader};
use super::{Envoy, METRICS_PATH, READY_PATH, REPLAYED_BYTES, clusters, select};

/// How long a query may go without a byte in either direction: many say nothing until their result is there. What ends
/// sooner is a connection whose other side is gone, which keep-alive packets find out.
const LONGEST_SILENCE: Span = Span::seconds(24 * 60 * 60);

/// Timeout of a readiness probe: longer than a connection attempt, and not much longer than the interval between probes.
pub(super) const PROBE_TIMEOUT: Span = Span::milliseconds(1500);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RouteConfiguration {
    name: &'static str,
    virtual_hosts: Vec<VirtualHost>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct VirtualHost {
    name: &'static str,
    domains: Vec<String>,
    routes: Vec<Route>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Route {
    #[serde(rename = "match")]
    matches: RouteMatch,
    route: RouteAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body_buffer_limit: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    request_headers_to_remove: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<AddedHeader>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RouteMatch {
    #[serde(flatten)]
    path: PathMatch,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<HeaderMatch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dynamic_metadata: Vec<select::SelectionMatch>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PathMatch {
    Path(&'static str),
    Prefix(&'static str),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RouteAction {
    cluster: &'static str,
    timeout: Span,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<RetryPolicy>,
}

/// Requests for an engine. The client's authority leads nowhere: only names of Services of engines in our namespace
/// match, and only if the selection marked the engine as chosen, which no client can do in its place.
pub(super) fn to_engines(envoy: &Envoy) -> RouteConfiguration {
    let route = Route {
        matches: RouteMatch {
            path: PathMatch::Prefix("/"),
            headers: Vec::new(),
            dynamic_metadata: vec![select::selected()],
        },
        route: RouteAction {
            cluster: clusters::ENGINES,
            // No time limit: the client decides when to give up.
            timeout: Span::ZERO,
            idle_timeout: Some(LONGEST_SILENCE),
            retry_policy: Some(retry::policy()),
        },
        request_body_buffer_limit: Some(REPLAYED_BYTES),
        request_headers_to_remove: vec![wake::FRAMING_HEADER],
        response_headers_to_add: vec![wake::timing()],
    };
    RouteConfiguration {
        name: "local_route",
        virtual_hosts: vec![VirtualHost {
            name: "default",
            domains: engine_domains(envoy),
            routes: vec![route],
        }],
    }
}

/// The paths that can be read from outside of the pod.
pub(super) fn to_metrics() -> RouteConfiguration {
    RouteConfiguration {
        name: "stats_route",
        virtual_hosts: vec![VirtualHost {
            name: "stats",
            domains: vec!["*".to_owned()],
            routes: vec![get(METRICS_PATH, clusters::METRICS, Span::seconds(15))],
        }],
    }
}

/// Checks whether an engine is reachable, by the route of its queries. Envoy does not retry: the agent does.
pub(super) fn to_readiness(envoy: &Envoy) -> RouteConfiguration {
    RouteConfiguration {
        name: "probe_route",
        virtual_hosts: vec![VirtualHost {
            name: "engines",
            domains: engine_domains(envoy),
            routes: vec![get(READY_PATH, clusters::ENGINES, PROBE_TIMEOUT)],
        }],
    }
}

/// The domains that match the names of engine Services in our namespace.
fn engine_domains(envoy: &Envoy) -> Vec<String> {
    vec![format!("*{}", select::authority_suffix(envoy))]
}

/// The route of a path that can be read.
fn get(path: &'static str, cluster: &'static str, timeout: Span) -> Route {
    Route {
        matches: RouteMatch {
            path: PathMatch::Path(path),
            headers: vec![HeaderMatch {
                name: ":method",
                string_match: StringMatch::Exact("GET"),
            }],
            dynamic_metadata: Vec::new(),
        },
        route: RouteAction {
            cluster,
            timeout,
            idle_timeout: None,
            retry_policy: None,
        },
        request_body_buffer_limit: None,
        request_headers_to_remove: Vec::new(),
        response_headers_to_add: Vec::new(),
    }
}
