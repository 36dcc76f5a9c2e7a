//! `render`: Kubernetes objects, one file per object. Nothing else builds objects.
//!
//! Rendering cannot fail and reads nothing: everything is in the effective settings that `resolve` returns. Writes and the
//! check whether a write is necessary use the same functions, so they cannot disagree.

pub mod engine;
pub mod instance;
mod tampering;
mod template_hash;

pub use tampering::differences;
pub(crate) use tampering::is_intact;
pub(crate) use tampering::missing;
pub(crate) use template_hash::with_template_hash;
