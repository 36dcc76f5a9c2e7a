//! The gateway sidecar: holds queries for stopped engines, asks for the engine, and lets them go when it is ready.
//!
//! It runs beside Envoy in every gateway pod, so it stays small and links nothing of the operator. [`table`] decides and
//! does nothing else: no I/O, no clock, no randomness.

pub mod table;
