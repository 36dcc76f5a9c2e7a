//! The caches that controllers stand on, kept current by watches, on leader and standby alike: the three kinds, and what
//! engines and instances own.
//!
//! An object that cannot be read never stalls the others: it is kept aside, told once and counted. A watch that fails
//! is retried for ever with growing pauses.

mod cache;
mod caches;
mod credentials;
mod family;
mod follow;
mod guard;
mod kinds;
mod malformed;
mod secrets;
mod store;
mod trouble;

pub use self::cache::{Cache, CacheStatus, Sync};
pub use self::caches::{Caches, OfEngines, OfInstances};
pub use self::credentials::{Credentials, FollowedCredentials};
pub use self::family::Family;
pub use self::follow::Listener;
pub use self::guard::{Guarded, Unreadable};
pub use self::kinds::Watched;
pub use self::malformed::{MalformedObjects, News};
pub use self::secrets::{KeyState, KnownSecret};
pub use self::store::{Change, Store};
pub use self::trouble::{Incidents, Trouble};
