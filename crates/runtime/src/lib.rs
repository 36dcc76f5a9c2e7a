//! What any operator needs and kube-rs lacks. It knows nothing of a particular product: kinds, field manager and texts for
//! users are parameters.
//!
//! | Module | Contents |
//! |---|---|
//! | [`informer`] | watches that fill indexed stores; one malformed object never blocks the others |
//! | [`queue`] | a work queue with priorities: each object once, at most one reconcile per object |
//! | [`reconciler`] | the [`Reconciler`](reconciler::Reconciler) trait and the loop that calls it, with per-object state |
//! | [`write`] | writes guarded by leadership, UID and version, and the expectations that follow from them |
//! | [`events`] | Kubernetes Events, de-duplicated, sent beside the reconciles |
//! | [`leader`] | leader election by a Lease |
//!
//! Metrics that every operator has are called as controller-runtime calls them.
//!
//! Only files called `apply.rs` write to the cluster.

pub mod backoff;
pub mod client;
pub mod error;
pub mod events;
pub mod informer;
mod key;
pub mod leader;
pub mod metrics;
pub mod queue;
mod reconcile_error;
pub mod reconciler;
#[cfg(test)]
mod widget;
pub mod write;

pub use self::key::ObjectKey;
pub use self::reconcile_error::{ErrorClass, ReconcileError, RejectedWrite};
