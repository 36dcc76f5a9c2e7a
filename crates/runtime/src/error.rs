//! Errors of the Kubernetes client as text.

use firebolt_process::error::chain;

/// An error of the client as text: the message of the API server if it responded, otherwise the chain of causes.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message.trim_end(), status.code),
        kube::Error::Service(source) => chain(source.as_ref()),
        other => chain(other),
    }
}
