//! `plan`: what one reconcile of an object does. No I/O, no clock, no randomness.

mod condition;
pub mod engine;
pub mod engine_class;
mod event;
pub mod instance;
mod kstatus;
mod object;
mod output;
mod reads;

pub use event::{EXTERNAL_FINALIZER, PlannedEvent, Severity};
pub(crate) use object::has_finalizer;
pub use object::{Meta, ObservedChild};
pub use output::Plan;
pub use reads::Reads;
