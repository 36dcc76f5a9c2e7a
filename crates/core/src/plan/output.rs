//! The plan of any kind. Everything in it is data; `apply` in the operator executes it.

use std::time::Duration;

use super::PlannedEvent;

/// What one reconcile does: writes of type `W`, and a status of type `S`.
///
/// The caller performs the writes in order and stops at the first failure; a crash after any prefix is safe. Then it
/// writes the status, guarded by the resourceVersion that the object was read with (or the one that a write of this plan
/// to the object itself returned), and emits the events.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<W, S> {
    /// Writes, in this order.
    pub writes: Vec<W>,
    /// The next status, or `None` if it would not change, or only in a timestamp.
    pub status: Option<S>,
    /// Events to emit.
    pub events: Vec<PlannedEvent>,
    /// When to reconcile again without a change of an object.
    pub requeue_after: Option<Duration>,
    /// How long changes do not trigger the next reconcile, unless they are urgent.
    pub throttle: Option<Duration>,
}

impl<W, S> Default for Plan<W, S> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            status: None,
            events: Vec::new(),
            requeue_after: None,
            throttle: None,
        }
    }
}
