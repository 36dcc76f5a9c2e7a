//! What ends the process, told to a person: what went wrong, where, and what to do next.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Why the process ends other than by request.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kubeconfig that a flag names cannot be used.
    #[error("cannot read kubeconfig {}: {}", path.display(), chain(source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: kube::config::KubeconfigError,
    },
    /// No flag says where the cluster is, and the usual places do not either.
    #[error("cannot find a cluster: {}", chain(.0))]
    NoCluster(#[source] kube::config::InferConfigError),
    /// The context that a flag names cannot be used.
    #[error("cannot use context {context} of the kubeconfig: {}", chain(source))]
    Context {
        /// Its name.
        context: String,
        /// The cause.
        source: kube::config::KubeconfigError,
    },
    /// The client refuses its configuration, for example a bad certificate.
    #[error("cannot set up the client of the cluster at {url}: {}", describe(source))]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        source: kube::Error,
    },
    /// No answer from the API server.
    #[error("cannot reach the API server at {url}: {}", describe(source))]
    Unreachable {
        /// The API server.
        url: String,
        /// The cause.
        source: kube::Error,
    },
    /// No answer from the API server in time.
    #[error("cannot reach the API server at {url}: no answer within {limit:?}")]
    Silent {
        /// The API server.
        url: String,
        /// How long we waited.
        limit: Duration,
    },
    /// The API server does not know us.
    #[error("cannot log in to the API server at {url}: {message}")]
    Unauthorized {
        /// The API server.
        url: String,
        /// Its words.
        message: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {flag}: {source}")]
    Bind {
        /// The flag that names the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
    /// Another process leads now, or may.
    #[error("lost the lease {lease}: {reason}")]
    LeadershipLost {
        /// Namespace and name.
        lease: String,
        /// How.
        reason: String,
    },
    /// A part of the process that runs for ever has ended.
    #[error("the {part} stopped by itself: {reason}")]
    PartEnded {
        /// Which.
        part: &'static str,
        /// How.
        reason: String,
    },
    /// Stopping took too long.
    #[error("cannot stop within {limit:?}: the {part} did not end")]
    StuckInShutdown {
        /// Which part.
        part: &'static str,
        /// How long we waited.
        limit: Duration,
    },
}

impl Failure {
    /// What to do next.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Kubeconfig { .. } => "Check the file that --kubeconfig names, and the context in it.".to_owned(),
            Self::NoCluster(_) => {
                "Name a kubeconfig with --kubeconfig, set KUBECONFIG, or run in a pod with a service account.".to_owned()
            }
            Self::Context { .. } => {
                "List the contexts with `kubectl config get-contexts` and name one with --context.".to_owned()
            }
            Self::Client { .. } | Self::Unreachable { .. } | Self::Silent { .. } => {
                "Check that the API server runs, and the address and certificates that --kubeconfig and --context lead to."
                    .to_owned()
            }
            Self::Unauthorized { .. } => {
                "Check the credentials in the kubeconfig, or the service account of the pod.".to_owned()
            }
            Self::Bind { flag, .. } => format!("Choose a free address with {flag}, or turn it off with {flag}=0."),
            Self::LeadershipLost { .. } => {
                "Start the process again; it then stands by. If this happens often, look at the load of the API server \
                 and at CPU limits, or raise --lease-duration."
                    .to_owned()
            }
            Self::Signals(_) | Self::PartEnded { .. } => {
                "This is a bug of the operator: please report it with the log.".to_owned()
            }
            Self::StuckInShutdown { .. } => {
                "Raise --shutdown-timeout if the work is only slow. A lease that was held expires by itself."
                    .to_owned()
            }
        }
    }

    /// The exit code that goes with it.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::LeadershipLost { .. } => ExitCode::from(3),
            Self::Kubeconfig { .. }
            | Self::NoCluster(_)
            | Self::Context { .. }
            | Self::Client { .. }
            | Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Unauthorized { .. }
            | Self::Bind { .. }
            | Self::Signals(_)
            | Self::PartEnded { .. }
            | Self::StuckInShutdown { .. } => ExitCode::FAILURE,
        }
    }
}

/// An error of the client in words: those of the API server where it answered, otherwise the chain of causes.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message.trim_end(), status.code),
        kube::Error::Service(source) => chain(source.as_ref()),
        other => chain(other),
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
        assert_eq!(shortened("", 5), "");
    }
}
