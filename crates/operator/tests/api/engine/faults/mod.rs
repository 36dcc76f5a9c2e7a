//! Faults between the operator and the API server: the operator crashes, its writes fail, its caches are stale, objects are
//! created anew under known names, and the leader changes. None of them breaks an invariant.

mod crash;
mod failed_writes;
mod history;
pub(super) mod invariants;
mod leader_change;
mod recreated_objects;
mod refused_deletes;
mod stale_caches;
pub(super) mod testenv;
