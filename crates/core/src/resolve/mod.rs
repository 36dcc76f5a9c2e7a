//! `resolve`: merges the settings of users and the operator's defaults into effective settings. All merging is here.

mod defaults;
mod empty_values;
pub mod engine;
pub mod instance;

pub use defaults::Defaults;
pub(crate) use defaults::{
    ENGINE_USER, ENGINE_WITHDRAWAL, hardened, pull_policy, pull_secrets, runtime_default, withdrawal,
};
pub(crate) use empty_values::{MAPS, without_empty_values};
