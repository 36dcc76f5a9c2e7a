//! The loop of every controller. What differs from kind to kind implements [`Reconciler`]; the work queue, per-object
//! [state](ObjectState), logs, metrics and backoff are here, once.

mod backoff;
mod drift;
mod last_success;
mod metrics;
mod reconcile;
mod rejection;
mod run;
mod state;

pub use self::backoff::{Backoff, Outcome};
pub use self::drift::DriftLimiter;
pub use self::last_success::LastSuccess;
pub use self::metrics::{ControllerMetrics, ReconcileMetrics};
pub use self::reconcile::Reconciler;
pub use self::rejection::RejectionBackoff;
pub use self::run::{Controller, run};
pub use self::state::ObjectState;
