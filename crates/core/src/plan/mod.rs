//! `plan`: the decision of one pass over an object. No I/O, no clock, no randomness.

mod condition;
pub mod engine;
pub mod engine_class;
mod event;
pub mod instance;
pub(crate) mod names;
mod object;

pub use event::{Event, Severity};
pub use object::{Child, Meta};
