//! The writes of a plan, in its order, up to the first failure. Every prefix is a safe place to die.
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
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::Meta;
use firebolt_core::plan::engine::{Kind, Object, Observed, Plan, Write};
use firebolt_core::render::engine as render;
use firebolt_core::resolve::engine::EffectiveEngine;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::PassError;
use super::memory::Memory;
use super::metrics::EngineMetrics;
use crate::key::ObjectKey;
use crate::leader::Term;

/// No answer is worth waiting for longer: a new look decides what to do.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(10);
const ENGINE: &str = "FireboltEngine";
const STATUS: &str = "FireboltEngine/status";

/// What carries out the writes of one pass.
pub struct Apply<'a> {
    pub client: &'a Client,
    pub term: &'a Term,
    pub metrics: &'a EngineMetrics,
    /// The engine as the decision was made from it; after a write to it, as that left it.
    pub engine: FireboltEngine,
    pub effective: &'a EffectiveEngine,
    pub observed: &'a Observed,
    /// The version of the routing Service that was seen: it is moved only from where it was seen to point.
    pub routing_version: Option<String>,
    /// Whether `spec.replicas` was set.
    pub scaled: bool,
    pub memory: &'a mut Memory,
}

impl Apply<'_> {
    /// Writes everything, the status last.
    pub async fn plan(&mut self, plan: &Plan) -> Result<(), PassError> {
        let decided_from = self.engine.status.clone();
        if plan.writes.first().is_some_and(|write| !guards_itself(write)) {
            self.confirm().await?;
        }
        for write in &plan.writes {
            self.write(write).await?;
            // Things move on: whatever fails next fails for the first time.
            self.memory.failures = 0;
        }
        if let Some(status) = &plan.status {
            self.status(status, decided_from.as_ref()).await?;
        }
        Ok(())
    }

    /// The engine must still be what the decision was made from: one that was made in an earlier phase must not move the
    /// routing Service or delete anything.
    async fn confirm(&mut self) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(&self.engine), self.engines());
        let fresh = self.read(api.get_opt(&key.name), &key).await?;
        if fresh.as_ref().and_then(ResourceExt::resource_version) == self.engine.resource_version() {
            return Ok(());
        }
        if let Some(fresh) = fresh {
            self.memory.latest = Some(fresh);
        }
        Err(PassError::Outdated { object: key })
    }

    async fn write(&mut self, write: &Write) -> Result<(), PassError> {
        match write {
            Write::AddFinalizer => self.finalizers(true).await,
            Write::RemoveFinalizer => self.finalizers(false).await,
            Write::ApplyConfigMap { generation } => {
                let seen = self.observed.generations.get(generation);
                let seen = seen.and_then(|seen| seen.config_map.as_ref()).map(|child| &child.meta);
                let rendered = render::config_map(self.effective, *generation);
                self.put::<ConfigMap>(Kind::ConfigMap, rendered, seen).await
            }
            Write::ApplyHeadlessService { generation } => {
                let seen = self.observed.generations.get(generation);
                let seen = seen
                    .and_then(|seen| seen.headless_service.as_ref())
                    .map(|child| &child.meta);
                let rendered = render::headless_service(self.effective, *generation);
                self.put::<Service>(Kind::Service, rendered, seen).await
            }
            Write::ApplyRoutingService { generation } => {
                let seen = self.observed.routing.as_ref().map(|routing| &routing.meta);
                let mut rendered = render::routing_service(self.effective, *generation);
                rendered.metadata.resource_version = seen.and(self.routing_version.clone());
                self.put::<Service>(Kind::Service, rendered, seen).await
            }
            Write::CreateStatefulSet { generation } => {
                let rendered = render::stateful_set(self.effective, *generation);
                self.put::<StatefulSet>(Kind::StatefulSet, rendered, None).await
            }
            Write::Delete(object) => self.delete(object).await,
            Write::SetReplicas {
                from: _,
                to,
                resource_version,
            } => {
                // The version stands for the value that was read too.
                let patch = json!({ "metadata": { "resourceVersion": resource_version }, "spec": { "replicas": to } });
                self.patch_engine(patch).await?;
                self.scaled = true;
                Ok(())
            }
        }
    }

    async fn put<K>(&mut self, kind: Kind, mut rendered: K, seen: Option<&Meta>) -> Result<(), PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let key = ObjectKey::of(&rendered);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let written = match seen {
            None => {
                self.request("create", name_of(kind), &key, api.create(&posting(), &rendered))
                    .await?
            }
            Some(meta) => {
                rendered.meta_mut().uid = Some(meta.uid.clone());
                let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER).force(), Patch::Apply(&rendered));
                let request = api.patch(&key.name, &parameters, &patch);
                match self.request("apply", name_of(kind), &key, request).await {
                    // What somebody changed stands beside what we apply where lists are merged, and together they may be
                    // invalid, as are two ports of one name. Then the lists are replaced.
                    Err(PassError::Write { source, .. }) if is_invalid(&source) => {
                        let (parameters, patch) = (patching(), Patch::Merge(&rendered));
                        let request = api.patch(&key.name, &parameters, &patch);
                        self.request("patch", name_of(kind), &key, request).await?
                    }
                    applied => applied?,
                }
            }
        };
        self.memory.wrote(kind, &written);
        Ok(())
    }

    async fn delete(&mut self, object: &Object) -> Result<(), PassError> {
        match object.kind {
            Kind::StatefulSet => {
                self.delete_of::<StatefulSet>(object, PropagationPolicy::Foreground)
                    .await
            }
            Kind::Service => self.delete_of::<Service>(object, PropagationPolicy::Background).await,
            Kind::ConfigMap => self.delete_of::<ConfigMap>(object, PropagationPolicy::Background).await,
        }
    }

    async fn delete_of<K>(&mut self, object: &Object, propagation: PropagationPolicy) -> Result<(), PassError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let key = ObjectKey::new(&self.effective.namespace, &object.name);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let parameters = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions {
                uid: Some(object.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = api.delete(&object.name, &parameters);
        match self.request("delete", name_of(object.kind), &key, request).await {
            Ok(_) => Ok(()),
            Err(PassError::Write { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn finalizers(&mut self, wanted: bool) -> Result<(), PassError> {
        let own = Finalizer::Engine.key();
        let others = self.engine.finalizers().iter().filter(|name| *name != own).cloned();
        let finalizers: Vec<String> = others.chain(wanted.then(|| own.to_owned())).collect();
        let version = self.engine.resource_version();
        let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
        self.patch_engine(patch).await
    }

    async fn patch_engine(&mut self, patch: Value) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(&self.engine), self.engines());
        let (parameters, patch) = (patching(), Patch::Merge(patch));
        let request = api.patch(&key.name, &parameters, &patch);
        let written = self.request("patch", ENGINE, &key, request).await?;
        self.took(written);
        Ok(())
    }

    /// The one write of the status. If the engine was written in between and its status is still the one that the
    /// decision was made from, the decision stands: a spec that changed meanwhile is for the next pass.
    async fn status(
        &mut self,
        next: &FireboltEngineStatus,
        from: Option<&FireboltEngineStatus>,
    ) -> Result<(), PassError> {
        match self.patch_status(next).await {
            Err(PassError::Write { source, .. }) if is_conflict(&source) => {}
            done => return done,
        }
        let (key, api) = (ObjectKey::of(&self.engine), self.engines());
        let fresh = self.read(api.get_opt(&key.name), &key).await?;
        let Some(fresh) = fresh.filter(|fresh| fresh.uid() == self.engine.uid()) else {
            return Err(PassError::Outdated { object: key });
        };
        let unchanged = fresh.status.as_ref() == from
            && fresh.metadata.deletion_timestamp == self.engine.metadata.deletion_timestamp;
        self.took(fresh);
        if !unchanged {
            return Err(PassError::Outdated { object: key });
        }
        self.patch_status(next).await
    }

    /// Writes the conditions of a decision that could not be carried out, and nothing else of it.
    pub async fn conditions(&mut self, planned: &FireboltEngineStatus) -> Result<(), PassError> {
        let Some(mut status) = self.engine.status.clone() else {
            return Ok(());
        };
        if status.conditions == planned.conditions {
            return Ok(());
        }
        status.conditions.clone_from(&planned.conditions);
        status.last_reconciled.clone_from(&planned.last_reconciled);
        self.patch_status(&status).await
    }

    async fn patch_status(&mut self, next: &FireboltEngineStatus) -> Result<(), PassError> {
        let (key, api) = (ObjectKey::of(&self.engine), self.engines());
        let version = self.engine.resource_version();
        let status = replacing(self.engine.status.as_ref(), next);
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": status }));
        let parameters = patching();
        let request = api.patch_status(&key.name, &parameters, &patch);
        let written = self.request("patch", STATUS, &key, request).await?;
        self.took(written);
        Ok(())
    }

    fn took(&mut self, engine: FireboltEngine) {
        self.memory.latest = Some(engine.clone());
        self.engine = engine;
    }

    fn engines(&self) -> Api<FireboltEngine> {
        Api::namespaced(self.client.clone(), &self.effective.namespace)
    }

    async fn read<T>(&self, request: impl Future<Output = kube::Result<T>>, key: &ObjectKey) -> Result<T, PassError> {
        match tokio::time::timeout(LONGEST_REQUEST, request).await {
            Ok(answer) => answer.map_err(|error| PassError::read("get", ENGINE, key, error)),
            Err(_elapsed) => Err(PassError::TimedOut {
                verb: "get",
                kind: ENGINE,
                object: key.clone(),
                limit: LONGEST_REQUEST,
            }),
        }
    }

    /// One write, made only while this process leads.
    async fn request<T>(
        &self,
        verb: &'static str,
        kind: &'static str,
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
                kind,
                object: object.clone(),
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(PassError::TimedOut {
                verb,
                kind,
                object: object.clone(),
                limit: LONGEST_REQUEST,
            }),
        }
    }
}

/// Writes to the engine itself carry the version that they were decided from.
fn guards_itself(write: &Write) -> bool {
    match write {
        Write::AddFinalizer | Write::RemoveFinalizer | Write::SetReplicas { .. } => true,
        Write::ApplyConfigMap { .. }
        | Write::ApplyHeadlessService { .. }
        | Write::CreateStatefulSet { .. }
        | Write::ApplyRoutingService { .. }
        | Write::Delete(_) => false,
    }
}

/// The whole next status as a merge patch: what the last one had and the next one has not is taken away.
fn replacing(before: Option<&FireboltEngineStatus>, next: &FireboltEngineStatus) -> Value {
    let fields = |status: &FireboltEngineStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => unreachable!("a status is a JSON object"),
    };
    let mut patch: Map<String, Value> = before.map(fields).unwrap_or_default();
    patch.values_mut().for_each(|value| *value = Value::Null);
    patch.extend(fields(next));
    Value::Object(patch)
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::StatefulSet => "StatefulSet",
        Kind::Service => "Service",
        Kind::ConfigMap => "ConfigMap",
    }
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
