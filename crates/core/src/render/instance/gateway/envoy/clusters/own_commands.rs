//! The admin port of this very pod, from which the metrics port takes what Prometheus may read.

use serde::Serialize;

use super::super::ADMIN_PORT;
use super::super::message::{Address, Span};
use super::Cluster;

/// The name by which the route refers to this cluster.
pub(crate) const ADMIN: &str = "admin_stats";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StaticCluster {
    name: &'static str,
    #[serde(rename = "type")]
    discovery: &'static str,
    connect_timeout: Span,
    load_assignment: LoadAssignment,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LoadAssignment {
    cluster_name: &'static str,
    endpoints: Vec<LocalityEndpoints>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LocalityEndpoints {
    lb_endpoints: Vec<LbEndpoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LbEndpoint {
    endpoint: Endpoint,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Endpoint {
    address: Address,
}

pub(crate) fn admin() -> Cluster {
    let endpoint = Endpoint {
        address: Address::loopback(ADMIN_PORT),
    };
    Cluster::OwnCommands(StaticCluster {
        name: ADMIN,
        discovery: "STATIC",
        connect_timeout: Span::milliseconds(250),
        load_assignment: LoadAssignment {
            cluster_name: ADMIN,
            endpoints: vec![LocalityEndpoints {
                lb_endpoints: vec![LbEndpoint { endpoint }],
            }],
        },
    })
}
