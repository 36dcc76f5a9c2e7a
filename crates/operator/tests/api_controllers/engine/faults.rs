//! Things go wrong between the operator and the API server, and nothing comes of it.
//!
//! The faults are named by what happens to the operator: it dies (`crash`), is refused (`refused`), sees old things
//! (`stale`), meets others under known names (`identity`), or is one of two (`leaders`).

mod crash;
mod history;
mod identity;
pub mod invariants;
mod leaders;
mod refused;
pub mod stage;
mod stale;
