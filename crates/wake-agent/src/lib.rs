//! The gateway sidecar: holds queries for stopped engines, asks for the engine, and lets them go when it is ready.
//!
//! It runs beside Envoy in every gateway pod, so it stays small and links nothing of the operator.
//!
//! - [`table`] decides and does nothing else: no I/O, no clock, no randomness.
//! - [`desk`] shares one table between all requests and keeps its time; [`work`] does what it wants done, through
//!   [`cluster`] and [`probe`].
//! - [`server`] takes the questions of Envoy to the desk; [`reply`] puts the answers into HTTP.
//! - [`drain`] sees Envoy to its end when the pod stops.

pub mod cli;
pub mod clock;
pub mod cluster;
pub mod desk;
pub mod drain;
pub mod envoy;
pub mod error;
pub mod logs;
pub mod metrics;
pub mod probe;
pub mod process;
pub mod reply;
pub mod server;
pub mod stats;
pub mod table;
pub mod work;
