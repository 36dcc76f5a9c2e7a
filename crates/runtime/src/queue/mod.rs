//! Which objects to reconcile, and when.
//!
//! [`PendingSet`] collects the objects whose watches saw a change; it holds each object at most once, so it cannot overflow.
//! [`WorkQueue`] decides what is next: one reconcile at a time per object, many objects at once, urgent ones first.

mod metrics;
mod pending;
mod priority;
mod work_queue;

pub(crate) use self::metrics::Work;
pub(crate) use self::metrics::{QueueMetrics, WorkQueueMetrics};
pub use self::pending::PendingSet;
pub use self::priority::Priority;
pub use self::work_queue::{Requeue, WorkQueue};
