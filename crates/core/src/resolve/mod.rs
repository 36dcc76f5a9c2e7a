//! `resolve`: what users wrote and the operator's defaults become one effective value. All merging is here.

mod defaults;
pub mod engine;

pub use defaults::Defaults;
pub(crate) use defaults::{hardened, pull_policy};
