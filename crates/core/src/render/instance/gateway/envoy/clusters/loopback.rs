//! Clusters with one host: another port of the same pod.

use serde::Serialize;

use super::super::message::Address;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LoadAssignment {
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

/// The only host of a cluster.
pub(super) fn host(cluster_name: &'static str, port: u16) -> LoadAssignment {
    let endpoint = Endpoint {
        address: Address::loopback(port),
    };
    LoadAssignment {
        cluster_name,
        endpoints: vec![LocalityEndpoints {
            lb_endpoints: vec![LbEndpoint { endpoint }],
        }],
    }
}
