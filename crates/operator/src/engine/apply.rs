//! All writes of a reconcile. Every prefix of the writes of a plan is a safe place to stop.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::engine::{DeletedObject, EngineObjectKind, EngineWrite, Gate, Limits, report_rejection};
use firebolt_core::plan::{Meta, PlannedEvent};
use firebolt_core::render::engine as render;
use firebolt_runtime::ReconcileError;
use firebolt_runtime::reconciler::Backoff;
use firebolt_runtime::write::{Child, FieldOwnership, Writer};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;

use super::reconciler::{EngineReconciler, Planned};
use super::refused_deletes::RefusedDeletes;
use super::state::State;

/// What became of the writes of a plan.
pub(super) struct EngineWriteOutcome {
    /// The engine after the last write to it.
    pub(super) engine: FireboltEngine,
    /// Whether `spec.replicas` was written.
    pub(super) scaled: bool,
    /// The first delete that the API server rejected. It prevents nothing else; the next reconcile reports it.
    pub(super) refused_delete: Option<ReconcileError>,
    /// Why the writes were not completed, if they were not.
    pub(super) failure: Option<WriteFailure>,
}

/// Why the writes of a plan were not completed.
pub(super) struct WriteFailure {
    pub(super) error: ReconcileError,
    /// The events that go with the conditions that report it.
    pub(super) events: Vec<PlannedEvent>,
}

impl EngineReconciler {
    /// Makes the writes of a plan in its order, up to the first failure, and the status last. If the API server rejects an
    /// object, the conditions say so at once. All deletes are attempted.
    pub(super) async fn apply(
        &self,
        engine: &FireboltEngine,
        planned: &Planned,
        state: &mut State,
    ) -> EngineWriteOutcome {
        let mut apply = Apply {
            writer: Writer::new(&self.shared.access, engine.clone(), &mut state.expectations),
            backoff: &mut state.backoff,
            refused_deletes: &mut state.own.refused_deletes,
            planned,
            scaled: false,
            refused_delete: None,
        };
        let done = apply.all().await;
        let (after, scaled, refused_delete) = (apply.writer.into_owner(), apply.scaled, apply.refused_delete);
        if planned.plan.status.is_some() {
            state.own.status_written = Some(Instant::now());
        }
        let Err(error) = done else {
            return EngineWriteOutcome {
                engine: after,
                scaled,
                refused_delete,
                failure: None,
            };
        };
        let (after, events) = match state.own.reject(&planned.desired, &error) {
            Some(gate) => self.apply_rejection(engine, after, planned, gate, state).await,
            None => (after, Vec::new()),
        };
        EngineWriteOutcome {
            engine: after,
            scaled,
            refused_delete,
            failure: Some(WriteFailure { error, events }),
        }
    }

    /// Writes the conditions that report a rejection, and nothing else. Best effort: the rejection itself is what the
    /// reconcile ends in. Returns the engine after it, and the events that go with the conditions.
    async fn apply_rejection(
        &self,
        engine: &FireboltEngine,
        after: FireboltEngine,
        planned: &Planned,
        gate: Gate,
        state: &mut State,
    ) -> (FireboltEngine, Vec<PlannedEvent>) {
        let Planned {
            snapshot,
            desired,
            observed,
            ..
        } = planned;
        let input = self.input(engine, desired, observed, snapshot.at, Limits::default());
        let Some((next, events)) = report_rejection(&input, gate) else {
            return (after, Vec::new());
        };
        let mut writer = Writer::new(&self.shared.access, after, &mut state.expectations);
        match conditions(&mut writer, &next).await {
            Ok(()) => (writer.into_owner(), events),
            Err(error) => {
                debug!("cannot report the rejection: {error}");
                (writer.into_owner(), Vec::new())
            }
        }
    }
}

struct Apply<'a> {
    writer: Writer<'a, FireboltEngine>,
    backoff: &'a mut Backoff,
    refused_deletes: &'a mut RefusedDeletes,
    planned: &'a Planned,
    scaled: bool,
    refused_delete: Option<ReconcileError>,
}

impl Apply<'_> {
    async fn all(&mut self) -> Result<(), ReconcileError> {
        let plan = &self.planned.plan;
        let planned_from = self.writer.owner().status.clone();
        if plan.writes.first().is_some_and(|write| !guards_itself(write)) {
            self.writer.confirm().await?;
        }
        for write in &plan.writes {
            self.write(write).await?;
            self.backoff.reset();
        }
        if let Some(status) = &plan.status {
            self.writer.status(status, planned_from.as_ref()).await?;
        }
        Ok(())
    }

    async fn write(&mut self, write: &EngineWrite) -> Result<(), ReconcileError> {
        let (effective, observed) = (&self.planned.desired.effective, &self.planned.observed);
        match write {
            EngineWrite::AddFinalizer => self.writer.set_finalizer(Finalizer::Engine.key(), true).await,
            EngineWrite::RemoveFinalizer => self.writer.set_finalizer(Finalizer::Engine.key(), false).await,
            EngineWrite::ApplyConfigMap { generation, copy_of } => {
                let children = observed.generations.get(generation);
                let live = children.and_then(|children| children.config_map.as_ref());
                let rendered = match copy_of.map(|of| self.planned.snapshot.objects.config_map(&effective.name, of)) {
                    None => render::config_map(effective, *generation),
                    Some(of) => render::copied_config_map(effective, *generation, &of.cloned().unwrap_or_default()),
                };
                self.put(rendered, live.map(|child| &child.meta)).await
            }
            EngineWrite::ApplyHeadlessService { generation } => {
                let children = observed.generations.get(generation);
                let live = children.and_then(|children| children.headless_service.as_ref());
                let rendered = render::headless_service(effective, *generation);
                self.put(rendered, live.map(|child| &child.meta)).await
            }
            EngineWrite::ApplyRoutingService { generation } => {
                let live = observed.routing.as_ref().map(|routing| &routing.meta);
                let mut rendered = render::routing_service(effective, *generation);
                // It is switched only from the generation that it was observed to select.
                let version = self.planned.snapshot.objects.routing_service(&effective.name);
                rendered.metadata.resource_version = version.and_then(ResourceExt::resource_version);
                self.put(rendered, live).await
            }
            EngineWrite::CreateStatefulSet { generation, copy_of } => {
                let of = copy_of.and_then(|of| self.planned.snapshot.objects.stateful_set(&effective.name, of));
                let rendered = match of {
                    None => render::stateful_set(effective, *generation),
                    Some(of) => render::copied_stateful_set(effective, *generation, of),
                };
                self.put(rendered, None).await
            }
            EngineWrite::Delete(object) => {
                let deleted = self.delete(object).await;
                self.refused_deletes.note(object, &deleted);
                match deleted {
                    Err(error) if error.rejected_write().is_some() => {
                        self.refused_delete.get_or_insert(error);
                        Ok(())
                    }
                    deleted => deleted,
                }
            }
            EngineWrite::SetReplicas {
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

    async fn put<K: Child>(&mut self, rendered: K, live: Option<&Meta>) -> Result<(), ReconcileError> {
        match live {
            None => self.writer.create(&rendered).await.map(drop),
            // What is applied has the same fields in every generation, so none ever has to be removed.
            Some(meta) => self
                .writer
                .apply(rendered, &meta.uid, FieldOwnership::Applied)
                .await
                .map(drop),
        }
    }

    async fn delete(&mut self, object: &DeletedObject) -> Result<(), ReconcileError> {
        let DeletedObject { kind, name, uid } = object;
        let (foreground, background) = (PropagationPolicy::Foreground, PropagationPolicy::Background);
        match kind {
            EngineObjectKind::StatefulSet => self.writer.delete::<StatefulSet>(name, uid, foreground).await,
            EngineObjectKind::Service => self.writer.delete::<Service>(name, uid, background).await,
            EngineObjectKind::ConfigMap => self.writer.delete::<ConfigMap>(name, uid, background).await,
            EngineObjectKind::Pod => self.writer.delete::<Pod>(name, uid, background).await,
        }
    }
}

/// Writes the conditions of a status, with the generation that they are about, and nothing else of it.
async fn conditions(
    writer: &mut Writer<'_, FireboltEngine>,
    planned: &FireboltEngineStatus,
) -> Result<(), ReconcileError> {
    let Some(mut status) = writer.owner().status.clone() else {
        return Ok(());
    };
    if status.conditions == planned.conditions {
        return Ok(());
    }
    status.conditions.clone_from(&planned.conditions);
    status.observed_generation = planned.observed_generation;
    status.last_reconciled.clone_from(&planned.last_reconciled);
    writer.patch_status(&status).await
}

/// Writes to the engine itself contain the version that they were planned from.
fn guards_itself(write: &EngineWrite) -> bool {
    match write {
        EngineWrite::AddFinalizer | EngineWrite::RemoveFinalizer | EngineWrite::SetReplicas { .. } => true,
        EngineWrite::ApplyConfigMap { .. }
        | EngineWrite::ApplyHeadlessService { .. }
        | EngineWrite::CreateStatefulSet { .. }
        | EngineWrite::ApplyRoutingService { .. }
        | EngineWrite::Delete(_) => false,
    }
}
