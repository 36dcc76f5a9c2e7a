//! How busy pods are, asked outside of reconciles.
//!
//! A reconcile never talks to a pod. It says what it wants to know about an engine ([`Pool::assign`]) and reads what was
//! found so far ([`Pool::drain_sample`], [`Pool::activity_sample`]). The pool asks in its own time and has the engine
//! looked at again after each sample.

mod book;
mod error;
#[cfg(test)]
mod fixture;
mod pool;
mod sample;
mod scrape;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

pub use firebolt_api::MetricScrapeMode as Transport;

pub use self::error::ScrapeError;
pub use self::pool::Pool;
pub use self::scrape::Scraper;
use crate::key::ObjectKey;

/// What is to be known about an engine, from now until it is assigned anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The identity of the engine. Another engine of the same name starts from nothing.
    pub uid: String,
    /// What the count is for.
    pub purpose: Purpose,
    /// Whose queries are counted.
    pub generation: i64,
    /// The time from the beginning of a sample to the beginning of the next.
    pub interval: Duration,
    /// The way to the pods.
    pub transport: Transport,
}

/// What a count is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Giving up an old generation once it has no more queries.
    Drain,
    /// Stopping an engine that nobody uses.
    Activity,
}

/// A pod to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its address, if it has one by now.
    pub ip: Option<IpAddr>,
}

/// One pod of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It is asked.
    Ask(Target),
    /// It has no queries, without being asked.
    Drained,
    /// It cannot be asked: the sample fails.
    Unaskable {
        /// Which pod.
        pod: String,
        /// Why, without a full stop.
        cause: String,
    },
}

/// The pods of an engine at this moment, in a fixed order: of several failures, that of the first pod is reported. Reads
/// caches and does not block.
pub type Subjects = Arc<dyn Fn(&ObjectKey, &Assignment) -> Vec<Subject> + Send + Sync>;

/// Asks one pod for the number of its queries. Comes to an end by itself.
pub type Scrape = Arc<dyn Fn(Target, Transport) -> BoxFuture<'static, Result<u64, ScrapeError>> + Send + Sync>;

/// What the pool needs from its surroundings. None of it is called with a lock held.
#[derive(Clone)]
pub struct Hooks {
    /// Whom to ask.
    pub subjects: Subjects,
    /// How to ask; usually [`Scraper::into_hook`].
    pub scrape: Scrape,
    /// Has the engine looked at again. Does not block.
    pub notify: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
    /// Takes in how long a scrape took, and whether it told the number of queries.
    pub measure: Arc<dyn Fn(Duration, bool) + Send + Sync>,
    /// The wall clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}
