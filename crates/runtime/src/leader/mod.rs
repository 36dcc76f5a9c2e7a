//! Leader election by a Lease: one process is the leader, the others are on standby with warm caches.
//!
//! [`decide`] holds the rules and does no I/O; [`LeaseClient`] makes the requests and takes no decisions. [`run`] connects
//! them. A watch on the Lease notifies a candidate at once that it was released, and a leader that it was deleted; it is a
//! hint only, and decisions are made from live reads.
//!
//! A process leads at most once: when it loses the lease it must exit, because reconciles that it started may still be running.

mod apply;
pub mod decide;
mod elector;
mod status;

pub use self::apply::{LeaseClient, LeaseError};
pub use self::decide::{Loss, Timing};
pub use self::elector::{Ended, Remedies, explain, run};
pub use self::status::{Access, ElectionStatus, Leadership, Role};
