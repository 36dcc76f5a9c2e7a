//! One cluster for each engine, made on first use from the name of its Service, with one host for each pod.

use serde::Serialize;

use super::super::message::{Extension, Percent, Span};
use super::super::{Envoy, REPLAYED_BYTES};
use super::Cluster;
use super::connections::{self, BindConfig, ConnectionOptions, ProtocolOptions};
use super::dns::{self, DnsCluster};
use super::health_check::{self, HealthCheck};
use super::limits::{self, CircuitBreakers};

/// The name of the cluster that creates the others, for the route.
pub(crate) const ENGINES: &str = "dynamic_forward_proxy";

/// The template of the cluster of each engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct EngineCluster {
    name: &'static str,
    connect_timeout: Span,
    lb_policy: &'static str,
    per_connection_buffer_limit_bytes: u32,
    cluster_type: Extension<ClusterPerName>,
    circuit_breakers: CircuitBreakers,
    health_checks: Vec<HealthCheck>,
    ignore_health_on_host_removal: bool,
    common_lb_config: CommonLbConfig,
    typed_extension_protocol_options: ProtocolOptions,
    upstream_connection_options: ConnectionOptions,
    upstream_bind_config: BindConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig"
)]
struct ClusterPerName {
    sub_clusters_config: SubClusters,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct SubClusters {
    lb_policy: &'static str,
    max_sub_clusters: u32,
    sub_cluster_ttl: Span,
    dns_cluster_config: DnsCluster,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommonLbConfig {
    healthy_panic_threshold: Percent,
    update_merge_window: Span,
}

pub(crate) fn engines(envoy: &Envoy) -> Cluster {
    Cluster::Engines(Box::new(EngineCluster {
        name: ENGINES,
        connect_timeout: Span::milliseconds(250),
        lb_policy: "CLUSTER_PROVIDED",
        per_connection_buffer_limit_bytes: REPLAYED_BYTES,
        cluster_type: Extension {
            name: "envoy.clusters.dynamic_forward_proxy",
            typed_config: ClusterPerName {
                sub_clusters_config: per_name(envoy),
            },
        },
        circuit_breakers: limits::per_engine(),
        health_checks: vec![health_check::ready()],
        // A pod that left DNS gets no more queries, healthy or not: otherwise the old pods of an engine never drain.
        ignore_health_on_host_removal: true,
        common_lb_config: CommonLbConfig {
            // When an engine switches to other pods, none of them is checked yet. Sending queries to unchecked pods is
            // better than failing them: DNS contains ready pods only, and a pod that shuts down reports that it did not
            // start the query.
            healthy_panic_threshold: Percent { value: 1 },
            // Envoy would delay updates of health by a second.
            update_merge_window: Span::ZERO,
        },
        typed_extension_protocol_options: connections::protocol_options(),
        upstream_connection_options: connections::connection_options(),
        upstream_bind_config: connections::bind_config(),
    }))
}

/// A client can invent names, and each name that the agent does not reject costs some 50 KiB and a few DNS queries per second
/// until it expires. The limit bounds that, far above the number of engines of an instance. Real engines that are used
/// occasionally are kept for a while, so that their addresses are known even if DNS fails.
fn per_name(envoy: &Envoy) -> SubClusters {
    SubClusters {
        lb_policy: "ROUND_ROBIN",
        max_sub_clusters: 1024,
        sub_cluster_ttl: Span::seconds(300),
        dns_cluster_config: dns::addresses(envoy),
    }
}
