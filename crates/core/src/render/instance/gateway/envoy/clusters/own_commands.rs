//! The admin port of the same pod, the source of the metrics that Prometheus may read.

use serde::Serialize;

use super::super::ADMIN_PORT;
use super::super::message::Span;
use super::Cluster;
use super::loopback::{self, LoadAssignment};

/// The name of this cluster.
pub(super) const ADMIN: &str = "admin_stats";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AdminCluster {
    name: &'static str,
    #[serde(rename = "type")]
    discovery: &'static str,
    connect_timeout: Span,
    load_assignment: LoadAssignment,
}

pub(crate) fn admin() -> Cluster {
    Cluster::OwnCommands(AdminCluster {
        name: ADMIN,
        discovery: "STATIC",
        connect_timeout: Span::milliseconds(250),
        load_assignment: loopback::host(ADMIN, ADMIN_PORT),
    })
}
