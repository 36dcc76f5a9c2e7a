//! The pure core: what the operator decides, without a client, a clock or a random number.
//!
//! - `resolve` merges engine, class, instance and operator defaults into one effective value;
//! - `render` builds Kubernetes objects, one file per object;
//! - `plan` turns what is wanted and what was observed into an ordered list of writes;
//! - `activity` reads how busy a pod is from its metrics;
//! - `admit` knows what a user may set.
//!
//! Time, randomness, versions and images are arguments. `cargo xtask lint-deps` keeps everything else out.

pub mod activity;
pub mod admit;
mod canonical;
pub mod plan;
pub mod pods;
pub mod render;
pub mod resolve;
