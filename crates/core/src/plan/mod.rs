//! `plan`: the decision of one pass over an object. No I/O, no clock, no randomness.

pub mod engine;
mod event;
mod object;

pub use event::{Event, Severity};
pub use object::{Child, Meta};
