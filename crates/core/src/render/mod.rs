//! `render`: Kubernetes objects, one file per object. Nothing else builds objects.
//!
//! Building cannot fail and looks nothing up: everything is in what `resolve` made. The same functions feed the writes
//! and the question whether something has to be written, so the two cannot disagree.

pub mod engine;
pub mod instance;
mod stamp;
mod tampering;

pub use stamp::stamped;
pub use tampering::{differences, is_intact};
