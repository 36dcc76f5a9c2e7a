//! Errors that end the process: what went wrong, where, and what to do next.

use std::io;
use std::net::SocketAddr;

/// Why the process exits with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The listener cannot be opened.
    #[error("cannot listen on {address} for --listen: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// Signal handlers cannot be installed.
    #[error("cannot install signal handlers: {0}")]
    Signals(#[source] io::Error),
    /// The runtime cannot start.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

impl Failure {
    /// What to do next.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Bind { .. } => {
                "Choose a free port on the loopback interface with --listen, and configure Envoy to use it."
            }
            Self::Signals(_) | Self::Threads(_) => "Check the process and thread limits of the container.",
        }
    }
}
