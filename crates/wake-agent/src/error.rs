//! What ends the process, told to a person: what went wrong, where, and what to do next.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

/// Why the process ends other than by request.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for --listen: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
    /// Threads or timers cannot be had.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

impl Failure {
    /// What to do next.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "Choose a free port of the loopback interface with --listen, and tell Envoy of it.",
            Self::Signals(_) | Self::Threads(_) => "Check the limits on processes and threads of this container.",
        }
    }
}

/// An error and its causes in one line. Many errors repeat their cause in their own text; those are told once.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// A text from outside, cut to at most `limit` characters so that it cannot flood the log.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_cut() {
        assert_eq!(shortened("größe", 5), "größe");
        assert_eq!(shortened("größer", 5), "größ…");
    }
}
