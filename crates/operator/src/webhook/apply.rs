//! Rehearsals: the API server tries an object and stores nothing.
#![expect(clippy::disallowed_methods, reason = "a dry run, which changes nothing")]

use std::fmt::Debug;
use std::time::Duration;

use firebolt_core::admit::Objection;
use k8s_openapi::NamespaceResourceScope;
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::warn;

use super::judge::Judge;
use crate::error::{describe, shortened};

/// How long the API server may take. It asks other webhooks too.
const LONGEST_REHEARSAL: Duration = Duration::from_secs(3);
/// The most objections that are told. The rest comes up when these are dealt with.
const MOST_OBJECTIONS: usize = 50;
/// The most that is told of one objection.
const LONGEST_OBJECTION: usize = 500;

/// How a rehearsal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsed {
    /// The API server takes the object.
    Taken,
    /// It does not.
    Refused,
    /// It did not say.
    Unknown,
}

impl Judge {
    /// What the API server finds wrong with an object that would be created.
    ///
    /// Only what is invalid counts. A quota or a policy of the cluster may refuse today what it takes tomorrow, and an
    /// answer may not come at all; the controller tells of that when it is really the case.
    pub(super) async fn rehearse<K>(&self, object: &K) -> Vec<Objection>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let why = match timeout(LONGEST_REHEARSAL, api.create(&parameters, object)).await {
            Ok(Ok(_)) => {
                self.metrics.webhook().rehearsed(Rehearsed::Taken);
                return Vec::new();
            }
            Ok(Err(kube::Error::Api(status))) if !objections(&status).is_empty() => {
                self.metrics.webhook().rehearsed(Rehearsed::Refused);
                return objections(&status);
            }
            Ok(Err(error)) => describe(&error),
            Err(_elapsed) => format!("no answer within {LONGEST_REHEARSAL:?}"),
        };
        if self.metrics.webhook().rehearsed(Rehearsed::Unknown) {
            warn!(
                "cannot ask the API server whether it would take {} {}: {}. Objects are stored without that check; what is \
                 wrong with them shows in their status.",
                K::kind(&()),
                object.name_any(),
                shortened(&why, LONGEST_OBJECTION)
            );
        }
        Vec::new()
    }
}

/// What is invalid by the rules of Kubernetes. A policy of the cluster answers in the same way, but names no field.
fn objections(status: &Status) -> Vec<Objection> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.filter(|cause| !cause.field.is_empty() && cause.reason.starts_with("FieldValue"));
    let objections = causes.take(MOST_OBJECTIONS).map(|cause| Objection {
        field: cause.field.clone(),
        reason: cause.reason.clone(),
        message: shortened(&cause.message, LONGEST_OBJECTION),
    });
    objections.collect()
}
