//! The operator process: settings, watches, leader election, health and metrics, and (in time) the controllers.
//!
//! [`process`] puts the parts together. Only files called `apply.rs` write to the cluster.

pub mod backoff;
pub mod cli;
pub mod connect;
pub mod crds;
pub mod error;
pub mod http;
pub mod leader;
pub mod logs;
pub mod metrics;
pub mod process;
pub mod settings;
pub mod signals;
pub mod watches;
