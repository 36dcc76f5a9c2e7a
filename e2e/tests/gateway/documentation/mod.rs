//! The handbook: its commands work as they are printed, and its tables are complete.

mod gateway;
mod waking;
