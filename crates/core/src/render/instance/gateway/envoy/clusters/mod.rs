//! Upstream clusters: the pods of an engine, the wake agent, and Envoy's admin interface.

mod connections;
mod dns;
mod engines;
mod health_check;
mod limits;
mod loopback;
mod metrics;
mod own_commands;
mod wake_agent;

use serde::Serialize;

pub(super) use engines::{ENGINES, engines};
pub(super) use metrics::{METRICS, metrics};
pub(super) use own_commands::admin;
pub(super) use wake_agent::{WAKE_AGENT, wake_agent};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Cluster {
    Engines(Box<engines::EngineCluster>),
    WakeAgent(Box<wake_agent::AgentCluster>),
    OwnCommands(own_commands::AdminCluster),
    Metrics(metrics::MetricsCluster),
}
