//! Where the metrics port takes what Prometheus reads: from the agent, which adds its own to Envoy's, or from Envoy alone
//! while there is no agent.

use serde::Serialize;

use super::super::message::{Extension, Percent, Span};
use super::Cluster;
use super::own_commands::ADMIN;
use super::wake_agent::WAKE_AGENT;

/// The name of this cluster, for the route.
pub(crate) const METRICS: &str = "metrics";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MetricsCluster {
    name: &'static str,
    connect_timeout: Span,
    lb_policy: &'static str,
    cluster_type: Extension<Aggregate>,
    common_lb_config: CommonLbConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig"
)]
struct Aggregate {
    clusters: [&'static str; 2],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommonLbConfig {
    healthy_panic_threshold: Percent,
}

pub(crate) fn metrics() -> Cluster {
    Cluster::Metrics(MetricsCluster {
        name: METRICS,
        connect_timeout: Span::milliseconds(250),
        lb_policy: "CLUSTER_PROVIDED",
        cluster_type: Extension {
            name: "envoy.clusters.aggregate",
            typed_config: Aggregate {
                // The first healthy one.
                clusters: [WAKE_AGENT, ADMIN],
            },
        },
        common_lb_config: CommonLbConfig {
            healthy_panic_threshold: Percent { value: 0 },
        },
    })
}
