//! Where requests are sent: to the pods of an engine, or to Envoy's own commands.

mod connections;
mod dns;
mod engines;
mod health_check;
mod limits;
mod own_commands;

use serde::Serialize;

pub(super) use engines::{ENGINES, engines};
pub(super) use own_commands::{ADMIN, admin};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Cluster {
    Engines(Box<engines::EngineCluster>),
    OwnCommands(own_commands::StaticCluster),
}
