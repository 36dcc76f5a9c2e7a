//! `resolve`: what users wrote and the operator's defaults become one effective value. All merging is here.

mod defaults;
pub mod engine;
pub mod instance;

pub use defaults::Defaults;
pub(crate) use defaults::{ENGINE_USER, hardened, pull_policy, pull_secrets, runtime_default, withdrawal};
