//! Reads and writes of the one Lease. Each write is a create, or a replace that carries the version it was decided from.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::time::Duration;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use super::decide::{Claim, Record, Timing};
use crate::error;

/// Who wrote a field, as `kubectl get --show-managed-fields` tells it.
const FIELD_MANAGER: &str = firebolt_api::key::FIELD_MANAGER;
/// No answer is worth waiting for longer than this: another attempt on a new connection does better.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);

/// The Lease and what this process writes into it.
#[derive(Clone, Debug)]
pub struct LeaseHandle {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
}

/// Why a request for the Lease failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Someone else wrote, created or deleted the Lease since it was read.
    #[error("{verb} lease {lease}: it changed since it was read")]
    Changed {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: String,
    },
    /// The API server does not let us.
    #[error("{verb} lease {lease}: forbidden: {message}")]
    Forbidden {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: String,
        /// The words of the API server.
        message: String,
    },
    /// The namespace that the Lease should live in does not exist.
    #[error("create lease {lease}: there is no namespace {namespace}")]
    NoNamespace {
        /// Namespace and name.
        lease: String,
        /// The namespace.
        namespace: String,
    },
    /// No answer in time; a write may have been stored or not.
    #[error("{verb} lease {lease}: no answer from the API server within {limit:?}")]
    TimedOut {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: String,
        /// How long we waited.
        limit: Duration,
    },
    /// Any other failure; a write may have been stored or not.
    #[error("{verb} lease {lease}: {}", error::describe(source))]
    Failed {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: String,
        /// The cause.
        source: kube::Error,
    },
}

impl LeaseError {
    /// What a person can do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Forbidden { lease, .. } => format!(
                "Grant get, list, watch, create and update on leases.coordination.k8s.io in the namespace of {lease} \
                 (deploy/rbac.yaml does), choose another namespace with --lease-namespace, or run a single replica \
                 with --leader-elect=false."
            ),
            Self::NoNamespace { namespace, .. } => {
                format!("Create the namespace {namespace}, or name an existing one with --lease-namespace.")
            }
            Self::Failed {
                source: kube::Error::Api(status),
                ..
            } if status.code == 401 => {
                "Check the credentials in the kubeconfig, or the service account of the pod.".to_owned()
            }
            Self::Changed { .. } | Self::TimedOut { .. } | Self::Failed { .. } => {
                "Check that the API server is reachable and healthy; the operator keeps trying.".to_owned()
            }
        }
    }
}

impl LeaseHandle {
    /// A handle on the Lease `namespace/name` for the process called `identity`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, timing: Timing) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
        }
    }

    /// The API of the Lease's namespace, for watching it.
    #[must_use]
    pub fn api(&self) -> Api<Lease> {
        self.api.clone()
    }

    /// The name of the Lease.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace and name, for messages.
    #[must_use]
    pub fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// How long each phase of a term is.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// A claim for a new term that follows what was read.
    #[must_use]
    pub fn next_claim(&self, before: Option<&Record>) -> Claim {
        Claim {
            holder: self.identity.clone(),
            acquired: now(),
            transitions: before.map_or(0, |record| record.transitions.saturating_add(1)),
        }
    }

    /// Reads the Lease from the API server, not from a cache. None if there is none.
    pub async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.within("get", self.api.get_opt(&self.name)).await
    }

    /// Creates the Lease. Fails with [`LeaseError::Changed`] if somebody was quicker.
    pub async fn create(&self, claim: &Claim) -> Result<Lease, LeaseError> {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease {
            metadata,
            spec: Some(self.spec(claim, LeaseSpec::default())),
        };
        self.within("create", self.api.create(&parameters(), &lease)).await
    }

    /// Takes or renews the Lease as it was read or last written. Fails with [`LeaseError::Changed`] if it is no longer
    /// in that state: two processes that read the same version cannot both succeed.
    pub async fn hold(&self, read: &Lease, claim: &Claim) -> Result<Lease, LeaseError> {
        let mut lease = read.clone();
        lease.spec = Some(self.spec(claim, lease.spec.take().unwrap_or_default()));
        self.replace(&lease).await
    }

    /// Gives the Lease up, so that another process can take it without waiting for it to expire.
    pub async fn release(&self, held: &Lease) -> Result<Lease, LeaseError> {
        let mut lease = held.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(now()));
        self.replace(&lease).await
    }

    /// Sends a Lease back whole. The version inside makes the API server refuse it if anything has changed.
    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.within("update", self.api.replace(&self.name, &parameters(), lease))
            .await
    }

    fn spec(&self, claim: &Claim, before: LeaseSpec) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(claim.holder.clone()),
            acquire_time: Some(MicroTime(claim.acquired)),
            renew_time: Some(MicroTime(now())),
            lease_transitions: Some(claim.transitions),
            lease_duration_seconds: Some(i32::try_from(self.timing.duration.as_secs()).unwrap_or(i32::MAX)),
            ..before
        }
    }

    async fn within<T>(
        &self,
        verb: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, LeaseError> {
        let limit = self.timing.renew_every().min(LONGEST_REQUEST);
        let lease = self.lease();
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            // The one way in which creating can fail to find something.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 && verb == "create" => {
                Err(LeaseError::NoNamespace {
                    lease,
                    namespace: self.namespace.clone(),
                })
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Err(LeaseError::Changed { verb, lease })
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err(LeaseError::Forbidden {
                verb,
                lease,
                message: status.message,
            }),
            Ok(Err(source)) => Err(LeaseError::Failed { verb, lease, source }),
            Err(_elapsed) => Err(LeaseError::TimedOut { verb, lease, limit }),
        }
    }
}

fn parameters() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// The wall clock, cut to what a Lease can hold, so that a claim compares equal after a round trip.
fn now() -> Timestamp {
    Timestamp::now()
        .round(Unit::Microsecond)
        .unwrap_or_else(|_| Timestamp::now())
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(401, "Check the credentials")]
    #[case(500, "Check that the API server is reachable")]
    fn the_answer_of_the_api_server_leads_to_the_remedy(#[case] code: u16, #[case] expected: &str) {
        let mut status = Status::failure("no", "Reason");
        status.code = code;
        let error = LeaseError::Failed {
            verb: "get",
            lease: "a/b".to_owned(),
            source: kube::Error::Api(Box::new(status)),
        };
        assert!(error.remedy().starts_with(expected), "{}", error.remedy());
    }
}
