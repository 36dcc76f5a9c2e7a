//! The requests that write. Each is made only while this process is the leader, has a timeout, and is counted.
//!
//! Another object of the same name is never overwritten or deleted: an object that was not observed is *created*, which fails
//! if it exists; one that was observed is applied or deleted with its UID, which fails if it is another object by now.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::expectations::Expectations;
use super::metrics::WriteMetrics;
use super::ownership::{self, FieldOwnership};
use super::patch::{managed_fields, replacing};
use crate::client::REQUEST_TIMEOUT;
use crate::key::ObjectKey;
use crate::leader::Leadership;
use crate::reconcile_error::ReconcileError;

/// How often a hand-over of fields is attempted within one reconcile.
const HAND_OVER_ATTEMPTS: u32 = 3;

/// An object that is written on behalf of an owner.
pub trait Child:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> Child for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

/// An object that is reconciled: a custom resource with a status.
pub trait Owner: Child + HasStatus<Status: Serialize + PartialEq> {}

impl<K: Child + HasStatus<Status: Serialize + PartialEq>> Owner for K {}

/// What the writers of a controller share.
#[derive(Clone)]
pub struct WriteAccess {
    /// The client.
    pub client: Client,
    /// The right to write.
    pub leadership: Leadership,
    /// The field manager of all writes.
    pub field_manager: &'static str,
    /// Where writes are counted.
    pub metrics: WriteMetrics,
}

/// Makes the writes of one reconcile.
pub struct Writer<'a, K> {
    access: &'a WriteAccess,
    owner: K,
    expectations: &'a mut Expectations<K>,
}

impl<'a, K: Owner> Writer<'a, K> {
    /// A writer on behalf of `owner`, in the version from which the writes were planned.
    ///
    /// Only files called `apply.rs` may call this: clippy's `disallowed-methods` checks it.
    pub fn new(access: &'a WriteAccess, owner: K, expectations: &'a mut Expectations<K>) -> Self {
        Self {
            access,
            owner,
            expectations,
        }
    }

    /// The owner, as the last write to it returned it.
    #[must_use]
    pub fn owner(&self) -> &K {
        &self.owner
    }

    /// The owner, as the last write to it returned it.
    #[must_use]
    pub fn into_owner(self) -> K {
        self.owner
    }

    /// Checks that the owner still has the version from which the writes were planned. A plan from an earlier version must
    /// not move or delete anything.
    pub async fn confirm(&mut self) -> Result<(), ReconcileError> {
        let fresh = self.read_owner().await?;
        if fresh.as_ref().and_then(ResourceExt::resource_version) == self.owner.resource_version() {
            return Ok(());
        }
        if let Some(fresh) = fresh {
            self.expectations.saw_owner(fresh);
        }
        let object = ObjectKey::of(&self.owner);
        Err(ReconcileError::Conflict { object })
    }

    /// Creates an object. Fails with a conflict if one of its name exists.
    pub async fn create<C: Child>(&mut self, rendered: &C) -> Result<C, ReconcileError> {
        let (key, api, parameters) = (ObjectKey::of(rendered), self.api(), self.post_params());
        let request = api.create(&parameters, rendered);
        let written: C = self.request("create", &kind::<C>(), &key, request).await?;
        self.expectations.expect(&written);
        Ok(written)
    }

    /// Applies to the object with this UID. Fields of other managers stay; fields that we set before and do not render any
    /// more are removed.
    pub async fn apply<C: Child>(
        &mut self,
        mut rendered: C,
        uid: &str,
        fields: FieldOwnership,
    ) -> Result<C, ReconcileError> {
        let (key, api) = (ObjectKey::of(&rendered), self.api::<C>());
        rendered.meta_mut().uid = Some(uid.to_owned());
        match fields {
            FieldOwnership::Applied => {}
            // Boxed, because it is large and rare.
            FieldOwnership::Created => Box::pin(self.hand_over(&mut rendered)).await?,
        }
        let (parameters, patch) = (self.apply_params(), Patch::Apply(&rendered));
        let request = api.patch(&key.name, &parameters, &patch);
        let written = match self.request("apply", &kind::<C>(), &key, request).await {
            // Apply merges lists: the entries of another manager stay beside ours, and together they may be invalid, as
            // two ports of one name are. A merge patch replaces the lists.
            Err(ReconcileError::Write { source, .. }) if is_invalid(&source) => {
                let (parameters, patch) = (self.patch_params(), Patch::Merge(&rendered));
                let request = api.patch(&key.name, &parameters, &patch);
                self.request("patch", &kind::<C>(), &key, request).await?
            }
            applied => applied?,
        };
        self.expectations.expect(&written);
        Ok(written)
    }

    /// Makes the fields that we created the object with applied ones. Controllers of Kubernetes may write the status at any
    /// time: a conflict with them is retried, because the plan does not depend on it.
    async fn hand_over<C: Child>(&self, rendered: &mut C) -> Result<(), ReconcileError> {
        for _ in 1..HAND_OVER_ATTEMPTS {
            match self.hand_over_once(rendered).await {
                Err(ReconcileError::Write { source, .. }) if is_conflict(&source) => {}
                done => return done,
            }
        }
        self.hand_over_once(rendered).await
    }

    /// Reads the metadata live, because the caches keep almost nothing of the managed fields.
    async fn hand_over_once<C: Child>(&self, rendered: &mut C) -> Result<(), ReconcileError> {
        let (key, api) = (ObjectKey::of(rendered), self.api::<C>());
        let conflict = || ReconcileError::Conflict { object: key.clone() };
        let live = self
            .read(&kind::<C>(), &key, api.get_metadata_opt(&key.name))
            .await?
            .filter(|live| live.uid() == rendered.uid())
            .ok_or_else(conflict)?;
        // An apply that requires a version must not be made to another.
        let expected = rendered.resource_version();
        if expected.is_some() && expected != live.resource_version() {
            return Err(conflict());
        }
        let Some(entries) = ownership::handed_over(live.managed_fields(), self.access.field_manager) else {
            return Ok(());
        };
        let patch = Patch::Merge(managed_fields(&entries, live.resource_version().as_deref()));
        let parameters = self.patch_params();
        let request = api.patch_metadata(&key.name, &parameters, &patch);
        let patched = self.request("patch", &kind::<C>(), &key, request).await?;
        rendered.meta_mut().resource_version = expected.and(patched.resource_version());
        Ok(())
    }

    /// Deletes the object with this name and UID. Succeeds if it does not exist.
    pub async fn delete<C: Child>(
        &mut self,
        name: &str,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<(), ReconcileError> {
        let api = self.api::<C>();
        let key = ObjectKey::new(self.owner.namespace().unwrap_or_default(), name);
        let parameters = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = api.delete(name, &parameters);
        match self.request("delete", &kind::<C>(), &key, request).await {
            Ok(_) => Ok(()),
            Err(ReconcileError::Write { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds this finalizer to the owner, or removes it.
    pub async fn set_finalizer(&mut self, finalizer: &str, present: bool) -> Result<(), ReconcileError> {
        let others = self
            .owner
            .finalizers()
            .iter()
            .filter(|name| *name != finalizer)
            .cloned();
        let finalizers: Vec<String> = others.chain(present.then(|| finalizer.to_owned())).collect();
        self.patch(json!({ "metadata": { "finalizers": finalizers } })).await
    }

    /// A merge patch of the owner. It applies only to the resource version that it contains, or else to that of the owner.
    pub async fn patch(&mut self, mut body: Value) -> Result<(), ReconcileError> {
        let (key, api) = (ObjectKey::of(&self.owner), self.api::<K>());
        let version = &mut body["metadata"]["resourceVersion"];
        if version.is_null() {
            *version = json!(self.owner.resource_version());
        }
        let (parameters, patch) = (self.patch_params(), Patch::Merge(body));
        let request = api.patch(&key.name, &parameters, &patch);
        let written = self.request("patch", &kind::<K>(), &key, request).await?;
        self.saw_owner(written);
        Ok(())
    }

    /// Writes the status. If the owner was written in between but its status is still the one that the plan was made `from`,
    /// the status is written nevertheless: a spec that changed meanwhile is for the next reconcile.
    pub async fn status(&mut self, next: &K::Status, from: Option<&K::Status>) -> Result<(), ReconcileError> {
        match self.patch_status(next).await {
            Err(ReconcileError::Write { source, .. }) if is_conflict(&source) => {}
            done => return done,
        }
        let object = ObjectKey::of(&self.owner);
        let fresh = self.read_owner().await?;
        let Some(fresh) = fresh.filter(|fresh| fresh.uid() == self.owner.uid()) else {
            return Err(ReconcileError::Conflict { object });
        };
        let unchanged =
            fresh.status() == from && fresh.meta().deletion_timestamp == self.owner.meta().deletion_timestamp;
        self.saw_owner(fresh);
        if !unchanged {
            return Err(ReconcileError::Conflict { object });
        }
        self.patch_status(next).await
    }

    /// Replaces the whole status, if the owner still has the known version.
    pub async fn patch_status(&mut self, next: &K::Status) -> Result<(), ReconcileError> {
        let (key, api) = (ObjectKey::of(&self.owner), self.api::<K>());
        let version = self.owner.resource_version();
        let status = replacing(self.owner.status(), next);
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": status }));
        let (parameters, kind) = (self.patch_params(), format!("{}/status", kind::<K>()));
        let request = api.patch_status(&key.name, &parameters, &patch);
        let written = self.request("patch", &kind, &key, request).await?;
        self.saw_owner(written);
        Ok(())
    }

    fn saw_owner(&mut self, owner: K) {
        self.expectations.saw_owner(owner.clone());
        self.owner = owner;
    }

    fn api<C: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<C> {
        Api::namespaced(self.access.client.clone(), &self.owner.namespace().unwrap_or_default())
    }

    async fn read_owner(&self) -> Result<Option<K>, ReconcileError> {
        let (key, api) = (ObjectKey::of(&self.owner), self.api::<K>());
        self.read(&kind::<K>(), &key, api.get_opt(&key.name)).await
    }

    async fn read<T>(
        &self,
        kind: &str,
        key: &ObjectKey,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReconcileError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(answer) => answer.map_err(|error| ReconcileError::read("get", kind, key, error)),
            Err(_elapsed) => Err(ReconcileError::TimedOut {
                verb: "get",
                kind: kind.to_owned(),
                object: key.clone(),
                limit: REQUEST_TIMEOUT,
            }),
        }
    }

    fn apply_params(&self) -> PatchParams {
        PatchParams::apply(self.access.field_manager).force()
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.access.field_manager.to_owned()),
            ..PatchParams::default()
        }
    }

    fn post_params(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.access.field_manager.to_owned()),
            ..PostParams::default()
        }
    }

    /// Makes one write, only while this process is the leader.
    async fn request<T>(
        &self,
        verb: &'static str,
        kind: &str,
        object: &ObjectKey,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReconcileError> {
        if !self.access.leadership.is_held() {
            return Err(ReconcileError::NotLeader);
        }
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await;
        self.access.metrics.wrote(verb, kind, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(ReconcileError::Write {
                verb,
                kind: kind.to_owned(),
                object: object.clone(),
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(ReconcileError::TimedOut {
                verb,
                kind: kind.to_owned(),
                object: object.clone(),
                limit: REQUEST_TIMEOUT,
            }),
        }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
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
