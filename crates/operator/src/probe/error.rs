//! Why a scrape failed: a short text for the conditions of an engine.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use firebolt_core::activity::Fault;

/// Why a scrape failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScrapeError {
    /// The pod has no IP address.
    #[error("the pod has no IP address")]
    NoAddress,
    /// No connection.
    #[error("{cause} at {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The message of the operating system.
        cause: String,
    },
    /// No connection in time.
    #[error("timed out connecting to {address} after {limit:?}")]
    ConnectDeadline {
        /// Where.
        address: SocketAddr,
        /// The timeout.
        limit: Duration,
    },
    /// The response was not complete in time.
    #[error("no response within {0:?}")]
    Deadline(Duration),
    /// The response is a redirect. Following it would let a pod choose where the operator connects to.
    #[error("HTTP status {0}; redirects are not followed")]
    Redirect(u16),
    /// The response is not a success.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The response is too large.
    #[error("the metrics are larger than 1 MiB")]
    TooLarge,
    /// The connection broke, or the response is not HTTP.
    #[error("cannot read the response: {0}")]
    Broken(String),
    /// The metrics have no number of queries.
    #[error(transparent)]
    Metrics(#[from] Fault),
    /// The operator has no permission to scrape through the API server.
    #[error("the operator lacks the permission to get pods/proxy in namespace {0}")]
    Forbidden(String),
    /// The API server did not proxy the request or the response.
    #[error("error from the API server: {0}")]
    ApiServer(String),
    /// The API server cannot be reached.
    #[error("cannot scrape through the API server: {0}")]
    Client(String),
}

impl ScrapeError {
    /// A failed connection, with the message of the operating system.
    pub(super) fn connect(address: SocketAddr, error: &io::Error) -> Self {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        let mut letters = text.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let cause = first.into_iter().chain(letters).collect();
        Self::Connect { address, cause }
    }
}
