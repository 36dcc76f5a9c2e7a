//! Dry runs: the API server validates an object and stores nothing.
#![expect(clippy::disallowed_methods, reason = "a dry run, which changes nothing")]

use std::fmt::Debug;
use std::time::Duration;

use firebolt_core::admit::Cause;
use firebolt_process::error::shortened;
use firebolt_runtime::error::describe;
use k8s_openapi::NamespaceResourceScope;
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::warn;

use super::metrics::DryRunResult;
use super::validator::Validator;

/// Timeout of a dry run. The API server calls other webhooks too.
const DRY_RUN_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit on the causes that are reported. The rest is reported once these are corrected.
const MAX_CAUSES: usize = 50;
/// Limit on the text of one cause.
const MAX_CAUSE_LENGTH: usize = 500;

impl Validator {
    /// Creates the object with `dryRun` and returns the causes if the API server reports it as invalid.
    ///
    /// Only invalid fields count. A quota or a policy of the cluster may reject an object now and accept it later, and the
    /// API server may not respond in time; the controller reports these when it creates the object.
    pub(super) async fn dry_run<K>(&self, object: &K) -> Vec<Cause>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let error = match timeout(DRY_RUN_TIMEOUT, api.create(&parameters, object)).await {
            Ok(Ok(_)) => {
                self.metrics.dry_run(DryRunResult::Accepted);
                return Vec::new();
            }
            Ok(Err(kube::Error::Api(status))) if !causes(&status).is_empty() => {
                self.metrics.dry_run(DryRunResult::Rejected);
                return causes(&status);
            }
            Ok(Err(error)) => describe(&error),
            Err(_elapsed) => format!("timed out after {DRY_RUN_TIMEOUT:?}"),
        };
        if self.metrics.dry_run(DryRunResult::Unknown) {
            warn!(
                kind = %K::kind(&()),
                namespace,
                name = object.name_any(),
                "dry run failed: {}. Objects are stored without this check; errors are reported in their status.",
                shortened(&error, MAX_CAUSE_LENGTH)
            );
        }
        Vec::new()
    }
}

/// The fields that are invalid by the rules of Kubernetes. A policy of the cluster reports in the same way, but names no
/// field.
fn causes(status: &Status) -> Vec<Cause> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.filter(|cause| !cause.field.is_empty() && cause.reason.starts_with("FieldValue"));
    let causes = causes.take(MAX_CAUSES).map(|cause| Cause {
        field: cause.field.clone(),
        reason: cause.reason.clone(),
        message: shortened(&cause.message, MAX_CAUSE_LENGTH),
    });
    causes.collect()
}
