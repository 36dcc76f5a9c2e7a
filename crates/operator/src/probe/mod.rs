//! Counts the queries of pods, outside of reconciles.
//!
//! A reconcile never sends a request to a pod. It assigns a probe to an engine ([`Pool::assign`]) and reads the latest
//! sample ([`Pool::drain_sample`], [`Pool::activity_sample`]). The pool takes samples in the background and triggers a
//! reconcile of the engine after each.

mod assignment;
mod error;
#[cfg(test)]
mod fixture;
mod pool;
mod sample;
mod schedule;
mod scrape;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

pub(crate) use firebolt_api::MetricScrapeMode as Transport;

pub(crate) use self::assignment::{assignment, pool};
pub(crate) use self::error::ScrapeError;
pub(crate) use self::pool::Pool;
pub(crate) use self::scrape::Scraper;
use firebolt_runtime::ObjectKey;

/// What to probe of an engine, until the next assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The UID of the engine. Another engine of the same name starts without samples.
    pub uid: String,
    /// The purpose of the samples.
    pub purpose: Purpose,
    /// The generation whose queries are counted.
    pub generation: i64,
    /// The time from the start of a sample to the start of the next one.
    pub interval: Duration,
    /// How the pods are reached.
    pub transport: Transport,
}

/// The purpose of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Delete a draining generation once it has no queries.
    Drain,
    /// Stop an idle engine.
    Activity,
}

/// A pod to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its IP address, if it has one.
    pub ip: Option<IpAddr>,
}

/// One pod of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbePod {
    /// It is scraped.
    Scrape(Target),
    /// It has no queries; it is not scraped.
    Drained,
    /// It cannot be scraped: the sample fails.
    Unscrapable {
        /// Which pod.
        pod: String,
        /// Why, without a full stop.
        cause: String,
    },
}

/// The pods of an engine at this moment, in a fixed order: of several failures, that of the first pod is reported. Reads
/// caches and does not block.
pub(crate) type ListPods = Arc<dyn Fn(&ObjectKey, &Assignment) -> Vec<ProbePod> + Send + Sync>;

/// Scrapes the number of queries of one pod. Has a timeout.
pub(crate) type Scrape = Arc<dyn Fn(Target, Transport) -> BoxFuture<'static, Result<u64, ScrapeError>> + Send + Sync>;

/// Measures the duration of a scrape, and whether it succeeded.
pub(crate) type Measure = Arc<dyn Fn(Duration, bool) + Send + Sync>;

/// The functions that the pool calls, none of them with a lock held.
#[derive(Clone)]
pub(crate) struct Hooks {
    /// Lists the pods to scrape.
    pub(crate) list_pods: ListPods,
    /// Scrapes a pod; usually [`Scraper::into_hook`].
    pub(crate) scrape: Scrape,
    /// Triggers a reconcile of the engine. Does not block.
    pub notify: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
    /// Measures a scrape.
    pub measure: Measure,
    /// The wall clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}
