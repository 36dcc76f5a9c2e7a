//! The gateway sidecar: holds queries for stopped engines, wakes the engines, and releases the queries when they are
//! ready.
//!
//! It runs beside Envoy in every gateway pod, so it is small and links nothing of the operator.
//!
//! - [`hold`] is the state machine that decides: no I/O, no clock, no randomness.
//! - `hold_queue` shares one state machine between all requests and runs its timers; `executor` carries out its effects
//!   through `cluster` (API server) and `probe` (engines, through Envoy).
//! - `server` is the HTTP server for Envoy; `response` turns decisions into HTTP.
//! - `drain` drains Envoy when the pod is terminated.

pub mod cli;
mod clock;
mod cluster;
mod drain;
mod envoy;
mod error;
mod executor;
pub mod hold;
mod hold_queue;
mod merged_metrics;
mod metrics;
mod probe;
pub mod process;
mod response;
mod server;
