//! How soon an object is reconciled.

/// The priority of an object in the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// At once, however many normal reconciles are waiting or running.
    Urgent,
    /// When a worker is free, in the order of arrival.
    Normal,
}
