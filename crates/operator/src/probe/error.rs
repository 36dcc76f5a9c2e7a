//! Why a pod did not tell how busy it is: a short text that ends up in the conditions of an engine.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use firebolt_core::activity::Fault;

/// Why a scrape failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeError {
    /// There is nothing to connect to.
    #[error("the pod has no address")]
    NoAddress,
    /// No connection.
    #[error("{cause} at {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        cause: String,
    },
    /// No connection in time.
    #[error("no connection to {address} within {limit:?}")]
    ConnectDeadline {
        /// Where.
        address: SocketAddr,
        /// How long we waited.
        limit: Duration,
    },
    /// The answer was not complete in time.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The answer points elsewhere. Following it would let a pod choose whom the operator talks to.
    #[error("answered {0}, and redirects are not followed")]
    Redirect(u16),
    /// The answer is not a success.
    #[error("answered {0}")]
    Status(u16),
    /// The answer exceeds what is read.
    #[error("the metrics are larger than 1 MiB")]
    TooLarge,
    /// The exchange broke off, or is no HTTP.
    #[error("the answer cannot be read: {0}")]
    Broken(String),
    /// The answer does not tell.
    #[error(transparent)]
    Metrics(#[from] Fault),
    /// The operator may not ask through the API server.
    #[error("the operator lacks the permission to get pods/proxy in namespace {0}")]
    Forbidden(String),
    /// The API server did not pass on the question or the answer.
    #[error("the API server says: {0}")]
    ApiServer(String),
    /// The API server cannot be reached.
    #[error("cannot ask through the API server: {0}")]
    Client(String),
}

impl ScrapeError {
    /// A connection that could not be made, in the words of the system.
    pub(super) fn connect(address: SocketAddr, error: &io::Error) -> Self {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        let mut letters = text.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let cause = first.into_iter().chain(letters).collect();
        Self::Connect { address, cause }
    }
}
