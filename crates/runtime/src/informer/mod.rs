//! Informers: watches that fill indexed stores and call event handlers, on leader and standby alike.
//!
//! A malformed object never blocks the others: it is stored as [unreadable](Unreadable), logged once and counted. A watch that
//! fails is retried for ever with backoff.

mod cache;
mod guarded;
mod malformed;
mod store;
mod store_writer;
mod stream;
mod watch_error;
mod watched;

pub use self::cache::{Cache, CacheStatus};
pub use self::guarded::{Guarded, Unreadable};
pub use self::store::{Change, Index, Store};
pub use self::stream::{EventHandler, InformerOptions, start};
pub use self::watch_error::{FailureLog, WatchError};
pub use self::watched::Watched;
