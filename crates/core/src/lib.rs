//! The pure core: what the operator decides, without a client, a clock or a random number.
//!
//! - `resolve` merges engine, class, instance and operator defaults into one effective value;
//! - `render` builds Kubernetes objects, one file per object;
//! - `desired` is the desired state of each kind: resolved, and checked;
//! - `compare` compares what was observed in the cluster with what is desired;
//! - `plan` turns the desired and the observed state into an ordered list of writes;
//! - `activity` reads how busy a pod is from its metrics;
//! - `pods` reads the state of a pod, and `orphans` where a pod without an owner comes from;
//! - `admit` knows what a user may set.
//!
//! Time, randomness, versions and images are arguments. `cargo xtask lint-deps` keeps everything else out.

pub mod activity;
pub mod admit;
mod canonical;
pub mod compare;
mod database;
pub mod desired;
mod names;
pub mod orphans;
pub mod plan;
pub mod pods;
pub mod render;
pub mod resolve;
mod text;
