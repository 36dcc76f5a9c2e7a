//! Failures that end the process, with their remedies.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use firebolt_process::error::chain;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::error::describe;

/// Why the process ends without being stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The kubeconfig that a flag names cannot be used.
    #[error("cannot read kubeconfig {}: {}", path.display(), chain(source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: kube::config::KubeconfigError,
    },
    /// Neither a flag nor the environment names a cluster.
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
    /// The configuration of the client is invalid, for example a certificate.
    #[error("cannot set up the client of the cluster at {url}: {}", describe(source))]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        source: kube::Error,
    },
    /// The API server cannot be reached.
    #[error("cannot reach the API server at {url}: {}", describe(source))]
    Unreachable {
        /// The API server.
        url: String,
        /// The cause.
        source: kube::Error,
    },
    /// No response from the API server in time.
    #[error("cannot reach the API server at {url}: no response within {limit:?}")]
    Silent {
        /// The API server.
        url: String,
        /// The timeout.
        limit: Duration,
    },
    /// The API server rejects the credentials.
    #[error("cannot authenticate to the API server at {url}: {message}")]
    Unauthorized {
        /// The API server.
        url: String,
        /// The message of the API server.
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
    #[error("cannot install signal handlers: {0}")]
    Signals(#[source] io::Error),
    /// Another process is the leader, or may become it.
    #[error("lost the lease {lease}: {reason}")]
    LeadershipLost {
        /// The Lease.
        lease: ObjectKey,
        /// How.
        reason: String,
    },
    /// A part of the process that should not end has ended.
    #[error("the {part} ended unexpectedly: {reason}")]
    PartEnded {
        /// Which.
        part: &'static str,
        /// How.
        reason: String,
    },
    /// The shutdown took too long.
    #[error("cannot stop within {limit:?}: the {part} did not end")]
    StuckInShutdown {
        /// Which part.
        part: &'static str,
        /// The timeout.
        limit: Duration,
    },
}

impl Failure {
    /// What the user can do.
    #[must_use]
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Kubeconfig { .. } => "Check the file that --kubeconfig names, and the context in it.".to_owned(),
            Self::NoCluster(_) => {
                "Name a kubeconfig with --kubeconfig, set KUBECONFIG, or run in a pod with a service account.".to_owned()
            }
            Self::Context { .. } => {
                "List the contexts with `kubectl config get-contexts` and name one with --context.".to_owned()
            }
            Self::Client { .. } | Self::Unreachable { .. } | Self::Silent { .. } => {
                "Check that the API server is running, and the address and certificates in the kubeconfig."
                    .to_owned()
            }
            Self::Unauthorized { .. } => {
                "Check the credentials in the kubeconfig, or the service account of the pod.".to_owned()
            }
            Self::Bind { flag, .. } => format!("Choose a free address with {flag}, or turn it off with {flag}=0."),
            Self::LeadershipLost { .. } => {
                "Restart the process; it then becomes a standby. If this happens often, check the load of the API server \
                 and the CPU limits, or raise --lease-duration."
                    .to_owned()
            }
            Self::Signals(_) | Self::PartEnded { .. } => {
                "This is a bug of the operator: please report it with the log.".to_owned()
            }
            Self::StuckInShutdown { .. } => {
                "Raise --shutdown-timeout if reconciles are slow. The lease expires by itself."
                    .to_owned()
            }
        }
    }

    /// The Lease that this is about.
    pub(crate) fn lease(&self) -> Option<&ObjectKey> {
        let Self::LeadershipLost { lease, .. } = self else {
            return None;
        };
        Some(lease)
    }

    /// The exit code.
    #[must_use]
    pub(crate) fn exit_code(&self) -> ExitCode {
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
