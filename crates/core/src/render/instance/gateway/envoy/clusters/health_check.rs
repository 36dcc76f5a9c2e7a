//! How a gateway tells whether an engine pod takes queries.

use serde::Serialize;

use super::super::message::Span;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HealthCheck {
    timeout: Span,
    interval: Span,
    no_traffic_interval: Span,
    healthy_threshold: u32,
    unhealthy_threshold: u32,
    http_health_check: HttpHealthCheck,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct HttpHealthCheck {
    host: &'static str,
    path: &'static str,
}

/// Asks the query port itself, since an endpoint that comes from DNS has one port. One bad answer is enough: an engine
/// that shuts down says so, and another attempt elsewhere costs less than a query that is turned away.
pub(super) fn ready() -> HealthCheck {
    HealthCheck {
        timeout: Span::milliseconds(500),
        interval: Span::seconds(1),
        no_traffic_interval: Span::seconds(1),
        healthy_threshold: 1,
        unhealthy_threshold: 1,
        http_health_check: HttpHealthCheck {
            // Envoy's own choice is the name of the cluster, which has too many colons to be a host.
            host: "engine",
            path: "/health/ready",
        },
    }
}
