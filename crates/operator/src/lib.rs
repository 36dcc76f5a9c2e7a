//! The operator process: settings, watches, leader election, health and metrics, and the controllers.
//!
//! [`process`] puts the parts together. Only files called `apply.rs` write to the cluster.

pub mod backoff;
pub mod cli;
pub mod connect;
mod controller;
pub mod crds;
pub mod engine;
pub mod engine_class;
pub mod error;
pub mod events;
pub mod http;
pub mod instance;
pub mod key;
pub mod leader;
pub mod logs;
pub mod metrics;
pub mod probe;
pub mod process;
pub mod queue;
mod referring;
mod seen;
pub mod settings;
pub mod signals;
pub mod watches;
pub mod webhook;
pub mod write;
