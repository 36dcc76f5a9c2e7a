//! The operator process: settings, caches, leader election, health and metrics, and the controllers.
//!
//! [`process`] puts the parts together. Only files called `apply.rs` write to the cluster.

pub mod caches;
pub mod cli;
mod connect;
mod context;
mod controller;
pub mod crds;
mod engine;
mod engine_class;
mod engine_references;
mod error;
mod events;
mod http;
pub mod informers;
mod instance;
mod kind_metrics;
mod leader;
pub mod metrics;
mod observation;
pub mod pending;
mod probe;
pub mod process;
mod process_metrics;
mod random;
pub mod settings;
mod status_gauges;
mod triggers;
pub mod webhook;
