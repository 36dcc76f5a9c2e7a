//! Reads and writes of the Lease. Each write is a create, or a replace that carries the version it was decided from.

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

use super::decide::{Claim, LeaseRecord, Timing};
use crate::error::describe;
use crate::key::ObjectKey;

/// The timeout of a request: an attempt on a new connection does better than a longer wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads and writes the Lease on behalf of this process.
#[derive(Clone, Debug)]
pub struct LeaseClient {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    field_manager: &'static str,
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
        lease: ObjectKey,
    },
    /// This process has no permission.
    #[error("{verb} lease {lease}: forbidden: {message}")]
    Forbidden {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: ObjectKey,
        /// The message of the API server.
        message: String,
    },
    /// The namespace of the Lease does not exist.
    #[error("create lease {lease}: namespace {namespace} does not exist")]
    NoNamespace {
        /// Namespace and name.
        lease: ObjectKey,
        /// The namespace.
        namespace: String,
    },
    /// No response in time. A write may or may not have been stored.
    #[error("{verb} lease {lease}: no response from the API server within {limit:?}")]
    TimedOut {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: ObjectKey,
        /// The timeout.
        limit: Duration,
    },
    /// Any other failure. A write may or may not have been stored.
    #[error("{verb} lease {lease}: {}", describe(source))]
    Failed {
        /// What was attempted.
        verb: &'static str,
        /// Namespace and name.
        lease: ObjectKey,
        /// The cause.
        source: kube::Error,
    },
}

impl LeaseClient {
    /// A client of the Lease `namespace/name` for the process with this identity.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        field_manager: &'static str,
        timing: Timing,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            field_manager,
            timing,
        }
    }

    /// The API of the Lease's namespace, for watching it.
    #[must_use]
    pub(crate) fn api(&self) -> Api<Lease> {
        self.api.clone()
    }

    /// The name of the Lease.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the Lease.
    #[must_use]
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Namespace and name.
    #[must_use]
    pub fn lease(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// The durations that follow from the lease duration.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// A claim for the lease after the record that was read.
    #[must_use]
    pub(crate) fn next_claim(&self, before: Option<&LeaseRecord>) -> Claim {
        Claim {
            holder: self.identity.clone(),
            acquired: now(),
            transitions: before.map_or(0, |record| record.transitions.saturating_add(1)),
        }
    }

    /// Reads the Lease from the API server, not from a cache. None if there is none.
    pub(crate) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.within("get", self.api.get_opt(&self.name)).await
    }

    /// Creates the Lease. Fails with [`LeaseError::Changed`] if it exists.
    pub(crate) async fn create(&self, claim: &Claim) -> Result<Lease, LeaseError> {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease {
            metadata,
            spec: Some(self.spec(claim, LeaseSpec::default())),
        };
        self.within("create", self.api.create(&self.post_params(), &lease))
            .await
    }

    /// Acquires or renews the Lease as it was read or last written. Fails with [`LeaseError::Changed`] if it is no longer
    /// in that state: two processes that read the same version cannot both succeed.
    pub(crate) async fn hold(&self, read: &Lease, claim: &Claim) -> Result<Lease, LeaseError> {
        let mut lease = read.clone();
        lease.spec = Some(self.spec(claim, lease.spec.take().unwrap_or_default()));
        self.replace(&lease).await
    }

    /// Releases the Lease, so that another process can acquire it before it expires.
    pub(crate) async fn release(&self, held: &Lease) -> Result<Lease, LeaseError> {
        let mut lease = held.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(now()));
        self.replace(&lease).await
    }

    /// Replaces the Lease. The version in it makes the API server reject it if anything has changed.
    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.within("update", self.api.replace(&self.name, &self.post_params(), lease))
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

    fn post_params(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PostParams::default()
        }
    }

    async fn within<T>(
        &self,
        verb: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, LeaseError> {
        let limit = self.timing.renew_every().min(REQUEST_TIMEOUT);
        let lease = self.lease();
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            // A create finds nothing only if the namespace does not exist.
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

/// The wall clock in the resolution of a Lease, so that a claim compares equal after a round trip.
fn now() -> Timestamp {
    Timestamp::now()
        .round(Unit::Microsecond)
        .unwrap_or_else(|_| Timestamp::now())
}
