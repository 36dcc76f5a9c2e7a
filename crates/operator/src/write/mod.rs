//! Writing to the cluster on behalf of an object that is looked after: the engine or instance of a pass.
//!
//! [`Writer`] makes the requests, each only while this process leads. [`Written`] remembers what was written, so that a
//! cache which does not show it yet is not believed. What an object was created with is handed over to what is applied
//! to it ([`Fields`]), so that a field which is no longer rendered disappears.

mod apply;
mod error;
mod ownership;
mod written;

pub use self::apply::{Child, LONGEST_REQUEST, Root, Writer};
pub use self::error::{Nature, PassError};
pub use self::ownership::Fields;
pub use self::written::{Caught, Written, version_in};
