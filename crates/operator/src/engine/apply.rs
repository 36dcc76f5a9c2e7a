//! The writes of a plan, in its order, up to the first failure. Every prefix is a safe place to die.

use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::Meta;
use firebolt_core::plan::engine::{Kind, Object, Observed, Plan, Write};
use firebolt_core::render::engine as render;
use firebolt_core::resolve::engine::EffectiveEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::queue::Attempts;
use crate::write::{Child, Fields, PassError, Writer};

/// What carries out the writes of one pass.
pub struct Apply<'a> {
    /// Makes the requests.
    pub writer: Writer<'a, FireboltEngine>,
    /// Hears of progress.
    pub attempts: &'a mut Attempts,
    pub effective: &'a EffectiveEngine,
    pub observed: &'a Observed,
    /// The version of the routing Service that was seen: it is moved only from where it was seen to point.
    pub routing_version: Option<String>,
    /// Whether `spec.replicas` was set.
    pub scaled: bool,
}

impl Apply<'_> {
    /// Writes everything, the status last.
    pub async fn plan(&mut self, plan: &Plan) -> Result<(), PassError> {
        let decided_from = self.writer.root.status.clone();
        if plan.writes.first().is_some_and(|write| !guards_itself(write)) {
            self.writer.confirm().await?;
        }
        for write in &plan.writes {
            self.write(write).await?;
            self.attempts.progressed();
        }
        if let Some(status) = &plan.status {
            self.writer.status(status, decided_from.as_ref()).await?;
        }
        Ok(())
    }

    async fn write(&mut self, write: &Write) -> Result<(), PassError> {
        match write {
            Write::AddFinalizer => self.writer.finalizer(Finalizer::Engine, true).await,
            Write::RemoveFinalizer => self.writer.finalizer(Finalizer::Engine, false).await,
            Write::ApplyConfigMap { generation } => {
                let seen = self.observed.generations.get(generation);
                let seen = seen.and_then(|seen| seen.config_map.as_ref()).map(|child| &child.meta);
                let rendered = render::config_map(self.effective, *generation);
                self.put(rendered, seen).await
            }
            Write::ApplyHeadlessService { generation } => {
                let seen = self.observed.generations.get(generation);
                let seen = seen
                    .and_then(|seen| seen.headless_service.as_ref())
                    .map(|child| &child.meta);
                let rendered = render::headless_service(self.effective, *generation);
                self.put(rendered, seen).await
            }
            Write::ApplyRoutingService { generation } => {
                let seen = self.observed.routing.as_ref().map(|routing| &routing.meta);
                let mut rendered = render::routing_service(self.effective, *generation);
                rendered.metadata.resource_version = seen.and(self.routing_version.clone());
                self.put(rendered, seen).await
            }
            Write::CreateStatefulSet { generation } => {
                let rendered = render::stateful_set(self.effective, *generation);
                self.put(rendered, None).await
            }
            Write::Delete(object) => self.delete(object).await,
            Write::SetReplicas {
                from: _,
                to,
                resource_version,
            } => {
                // The version stands for the value that was read too.
                let patch = json!({ "metadata": { "resourceVersion": resource_version }, "spec": { "replicas": to } });
                self.writer.patch(patch).await?;
                self.scaled = true;
                Ok(())
            }
        }
    }

    async fn put<K: Child>(&mut self, rendered: K, seen: Option<&Meta>) -> Result<(), PassError> {
        match seen {
            None => self.writer.create(&rendered).await.map(drop),
            // What is applied has the same fields in every generation, so none is ever to be taken away.
            Some(meta) => self.writer.apply(rendered, &meta.uid, Fields::Applied).await.map(drop),
        }
    }

    async fn delete(&mut self, object: &Object) -> Result<(), PassError> {
        let Object { kind, name, uid } = object;
        let (foreground, background) = (PropagationPolicy::Foreground, PropagationPolicy::Background);
        match kind {
            Kind::StatefulSet => self.writer.delete::<StatefulSet>(name, uid, foreground).await,
            Kind::Service => self.writer.delete::<Service>(name, uid, background).await,
            Kind::ConfigMap => self.writer.delete::<ConfigMap>(name, uid, background).await,
        }
    }
}

/// Writes the conditions of a decision that could not be carried out, and nothing else of it.
pub async fn conditions(
    writer: &mut Writer<'_, FireboltEngine>,
    planned: &FireboltEngineStatus,
) -> Result<(), PassError> {
    let Some(mut status) = writer.root.status.clone() else {
        return Ok(());
    };
    if status.conditions == planned.conditions {
        return Ok(());
    }
    status.conditions.clone_from(&planned.conditions);
    status.last_reconciled.clone_from(&planned.last_reconciled);
    writer.patch_status(&status).await
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
