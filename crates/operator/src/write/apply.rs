//! The requests that write. Each is made only while this process leads, has a time limit, and is counted.
//!
//! Nothing is overwritten or deleted that is not ours by UID: what was not there is *created*, which fails if it is there
//! after all; what was there is applied to or deleted under its UID, which fails if it is another object by now.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::fmt::Debug;
use std::time::Duration;

use firebolt_api::key::{FIELD_MANAGER, Finalizer};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::PassError;
use super::ownership::{self, Fields};
use super::written::Written;
use crate::key::ObjectKey;
use crate::leader::Term;
use crate::queue::WorkMetrics;

/// No answer is worth waiting for longer: a new look decides what to do.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// How often fields are handed over before that is left to the next pass.
const HAND_OVERS: u32 = 3;

/// An object that is made on behalf of a root.
pub trait Child:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> Child for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

/// An object that is looked after: a custom resource with a status.
pub trait Root: Child + HasStatus<Status: Serialize + PartialEq> {}

impl<R: Child + HasStatus<Status: Serialize + PartialEq>> Root for R {}

/// What carries out the writes of one pass.
pub struct Writer<'a, R> {
    /// The client.
    pub client: &'a Client,
    /// The right to write.
    pub term: &'a Term,
    /// Where writes are counted.
    pub metrics: &'a WorkMetrics,
    /// The root as the decision was made from it; after a write to it, as that left it.
    pub root: R,
    /// What is remembered of the writes.
    pub written: &'a mut Written<R>,
}

impl<R: Root> Writer<'_, R> {
    /// Finds out whether the root is still what the decision was made from. What is decided from an earlier state must not
    /// move or delete anything.
    pub async fn confirm(&mut self) -> Result<(), PassError> {
        let fresh = self.read_root().await?;
        if fresh.as_ref().and_then(ResourceExt::resource_version) == self.root.resource_version() {
            return Ok(());
        }
        if let Some(fresh) = fresh {
            self.written.took(fresh);
        }
        let object = ObjectKey::of(&self.root);
        Err(PassError::Outdated { object })
    }

    /// Creates an object. Refused, as outdated, if one of its name is there.
    pub async fn create<K: Child>(&mut self, rendered: &K) -> Result<K, PassError> {
        let (key, api, parameters) = (ObjectKey::of(rendered), self.api(), posting());
        let request = api.create(&parameters, rendered);
        let written: K = self.request("create", &kind::<K>(), &key, request).await?;
        self.written.wrote(&written);
        Ok(written)
    }

    /// Applies to the object of this UID. What others have set beside our fields stays; what we set before and render no
    /// longer is taken away.
    pub async fn apply<K: Child>(&mut self, mut rendered: K, uid: &str, fields: Fields) -> Result<K, PassError> {
        let (key, api) = (ObjectKey::of(&rendered), self.api::<K>());
        rendered.meta_mut().uid = Some(uid.to_owned());
        match fields {
            Fields::Applied => {}
            // It is large, and rare.
            Fields::Created => Box::pin(self.hand_over(&mut rendered)).await?,
        }
        let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER).force(), Patch::Apply(&rendered));
        let request = api.patch(&key.name, &parameters, &patch);
        let written = match self.request("apply", &kind::<K>(), &key, request).await {
            // What somebody changed stands beside what we apply where lists are merged, and together they may be
            // invalid, as are two ports of one name. Then the lists are replaced.
            Err(PassError::Write { source, .. }) if is_invalid(&source) => {
                let (parameters, patch) = (patching(), Patch::Merge(&rendered));
                let request = api.patch(&key.name, &parameters, &patch);
                self.request("patch", &kind::<K>(), &key, request).await?
            }
            applied => applied?,
        };
        self.written.wrote(&written);
        Ok(written)
    }

    /// Makes what we created the object with count as applied. A controller of Kubernetes may write its status at any time:
    /// what is in its way then is tried again, since nothing was decided from the state that it has changed.
    async fn hand_over<K: Child>(&self, rendered: &mut K) -> Result<(), PassError> {
        for _ in 1..HAND_OVERS {
            match self.hand_over_once(rendered).await {
                Err(PassError::Write { source, .. }) if is_conflict(&source) => {}
                done => return done,
            }
        }
        self.hand_over_once(rendered).await
    }

    /// Read live, because of the record of who set which field the caches keep next to nothing; and no more than the
    /// metadata, because the rest is not needed.
    async fn hand_over_once<K: Child>(&self, rendered: &mut K) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(rendered), self.api::<K>());
        let outdated = || PassError::Outdated { object: key.clone() };
        let live = self
            .read(&kind::<K>(), &key, api.get_metadata_opt(&key.name))
            .await?
            .filter(|live| live.uid() == rendered.uid())
            .ok_or_else(outdated)?;
        // What is to be applied to one version only must not be applied to another.
        let expected = rendered.resource_version();
        if expected.is_some() && expected != live.resource_version() {
            return Err(outdated());
        }
        let Some(entries) = ownership::handed_over(live.managed_fields()) else {
            return Ok(());
        };
        let patch = Patch::Merge(owning(&entries, live.resource_version().as_deref()));
        let parameters = patching();
        let request = api.patch_metadata(&key.name, &parameters, &patch);
        let patched = self.request("patch", &kind::<K>(), &key, request).await?;
        rendered.meta_mut().resource_version = expected.and(patched.resource_version());
        Ok(())
    }

    /// Deletes the object of this name and UID. One that is gone is a success.
    pub async fn delete<K: Child>(
        &mut self,
        name: &str,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<(), PassError> {
        let api = self.api::<K>();
        let key = ObjectKey::new(self.root.namespace().unwrap_or_default(), name);
        let parameters = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = api.delete(name, &parameters);
        match self.request("delete", &kind::<K>(), &key, request).await {
            Ok(_) => Ok(()),
            Err(PassError::Write { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts our finalizer on the root, or takes it off.
    pub async fn finalizer(&mut self, finalizer: Finalizer, wanted: bool) -> Result<(), PassError> {
        let own = finalizer.key();
        let others = self.root.finalizers().iter().filter(|name| *name != own).cloned();
        let finalizers: Vec<String> = others.chain(wanted.then(|| own.to_owned())).collect();
        self.patch(json!({ "metadata": { "finalizers": finalizers } })).await
    }

    /// A merge patch of the root, guarded by the version that it names, or else by the one that the root has.
    pub async fn patch(&mut self, mut body: Value) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(&self.root), self.api::<R>());
        let version = &mut body["metadata"]["resourceVersion"];
        if version.is_null() {
            *version = json!(self.root.resource_version());
        }
        let (parameters, patch) = (patching(), Patch::Merge(body));
        let request = api.patch(&key.name, &parameters, &patch);
        let written = self.request("patch", &kind::<R>(), &key, request).await?;
        self.took(written);
        Ok(())
    }

    /// The one write of the status. If the root was written in between and its status is still the one that the decision
    /// was made `from`, the decision stands: a spec that changed meanwhile is for the next pass.
    pub async fn status(&mut self, next: &R::Status, from: Option<&R::Status>) -> Result<(), PassError> {
        match self.patch_status(next).await {
            Err(PassError::Write { source, .. }) if is_conflict(&source) => {}
            done => return done,
        }
        let object = ObjectKey::of(&self.root);
        let fresh = self.read_root().await?;
        let Some(fresh) = fresh.filter(|fresh| fresh.uid() == self.root.uid()) else {
            return Err(PassError::Outdated { object });
        };
        let unchanged =
            fresh.status() == from && fresh.meta().deletion_timestamp == self.root.meta().deletion_timestamp;
        self.took(fresh);
        if !unchanged {
            return Err(PassError::Outdated { object });
        }
        self.patch_status(next).await
    }

    /// Replaces the status, whole, if the root is still in the version that is known.
    pub async fn patch_status(&mut self, next: &R::Status) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(&self.root), self.api::<R>());
        let version = self.root.resource_version();
        let status = replacing(self.root.status(), next);
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": status }));
        let (parameters, kind) = (patching(), format!("{}/status", kind::<R>()));
        let request = api.patch_status(&key.name, &parameters, &patch);
        let written = self.request("patch", &kind, &key, request).await?;
        self.took(written);
        Ok(())
    }

    fn took(&mut self, root: R) {
        self.written.took(root.clone());
        self.root = root;
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.root.namespace().unwrap_or_default())
    }

    async fn read_root(&self) -> Result<Option<R>, PassError> {
        let (key, api) = (ObjectKey::of(&self.root), self.api::<R>());
        self.read(&kind::<R>(), &key, api.get_opt(&key.name)).await
    }

    async fn read<T>(
        &self,
        kind: &str,
        key: &ObjectKey,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, PassError> {
        match tokio::time::timeout(LONGEST_REQUEST, request).await {
            Ok(answer) => answer.map_err(|error| PassError::read("get", kind, key, error)),
            Err(_elapsed) => Err(PassError::TimedOut {
                verb: "get",
                kind: kind.to_owned(),
                object: key.clone(),
                limit: LONGEST_REQUEST,
            }),
        }
    }

    /// One write, made only while this process leads.
    async fn request<T>(
        &self,
        verb: &'static str,
        kind: &str,
        object: &ObjectKey,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, PassError> {
        if !self.term.holds() {
            return Err(PassError::TermOver);
        }
        let answer = tokio::time::timeout(LONGEST_REQUEST, request).await;
        self.metrics.wrote(verb, kind, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(PassError::Write {
                verb,
                kind: kind.to_owned(),
                object: object.clone(),
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(PassError::TimedOut {
                verb,
                kind: kind.to_owned(),
                object: object.clone(),
                limit: LONGEST_REQUEST,
            }),
        }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
}

/// A patch of the record of who set which field, for one version of the object.
fn owning(entries: &[ManagedFieldsEntry], version: Option<&str>) -> Value {
    json!({ "metadata": { "resourceVersion": version, "managedFields": entries } })
}

/// The whole next status as a merge patch: what the last one had and the next one has not is taken away.
fn replacing<S: Serialize>(before: Option<&S>, next: &S) -> Value {
    let fields = |status: &S| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => unreachable!("a status is a JSON object"),
    };
    let mut patch: Map<String, Value> = before.map(fields).unwrap_or_default();
    patch.values_mut().for_each(|value| *value = Value::Null);
    patch.extend(fields(next));
    Value::Object(patch)
}

fn posting() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltEngineStatus;

    use super::*;

    #[test]
    fn a_status_is_replaced_whole() {
        let status = |status| -> FireboltEngineStatus { serde_json::from_value(status).unwrap() };
        let before = status(json!({ "currentGeneration": 2, "activeGeneration": 2, "drainingGeneration": 1 }));
        let next = status(json!({ "currentGeneration": 2, "activeGeneration": 2 }));
        let patch = replacing(Some(&before), &next);
        assert_eq!(patch["drainingGeneration"], Value::Null);
        assert!(patch.as_object().unwrap().contains_key("drainingGeneration"));
        assert_eq!(patch["activeGeneration"], 2);
        assert!(
            !replacing(None, &next)
                .as_object()
                .unwrap()
                .contains_key("drainingGeneration")
        );
    }
}
