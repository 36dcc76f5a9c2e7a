//! Health checks of engine pods and of the wake agent.

use serde::Serialize;

use super::super::READY_PATH;
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
    codec_client_type: &'static str,
}

/// Checks the query port itself, because an endpoint from DNS has one port. One failed check is enough: an engine that shuts
/// down reports it, and another attempt elsewhere costs less than a rejected query.
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
            path: READY_PATH,
            codec_client_type: "HTTP1",
        },
    }
}

/// An agent that does not respond is bypassed after about two seconds, and one that responds again is checked a quarter
/// of a second later. A single late response is tolerated: held requests would lose their place. Envoy does not serve
/// before the first check is over, so an agent that hangs delays its start by a second, and an absent one does not.
pub(super) fn alive(path: &'static str) -> HealthCheck {
    HealthCheck {
        timeout: Span::seconds(1),
        interval: Span::milliseconds(250),
        no_traffic_interval: Span::milliseconds(250),
        healthy_threshold: 1,
        unhealthy_threshold: 2,
        http_health_check: HttpHealthCheck {
            host: "wake-agent",
            path,
            codec_client_type: "HTTP2",
        },
    }
}
