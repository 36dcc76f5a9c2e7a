//! Writes on behalf of an object that is reconciled, its owner.
//!
//! [`Writer`] makes the requests, each only while this process is the leader. [`Expectations`] remember what was written, so
//! that caches which do not show it yet are not trusted. Fields that an object was created with are [handed
//! over](FieldOwnership) to server-side apply, so that a field which is no longer rendered disappears.

mod apply;
mod expectations;
mod metrics;
mod ownership;
mod patch;

pub use self::apply::{Child, Owner, WriteAccess, Writer};
pub use self::expectations::{Expectations, Satisfied, version_in};
pub use self::metrics::WriteMetrics;
pub use self::ownership::FieldOwnership;
