//! All writes of a reconcile. Every prefix of the writes of a plan is a safe place to stop.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use firebolt_api::condition::InstanceReason;
use firebolt_api::key::{FIELD_MANAGER, Finalizer};
use firebolt_core::compare::instance::{AcceptedDrift, Rendered};
use firebolt_core::plan::PlannedEvent;
use firebolt_core::plan::instance::{Component, InstanceObject, InstanceObjectKind, InstanceWrite, stuck};
use firebolt_core::render::instance::postgres_credentials;
use firebolt_runtime::reconciler::Backoff;
use firebolt_runtime::write::{Child, FieldOwnership, Writer};
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy;
use serde_json::json;
use tracing::debug;

use super::reconciler::{InstanceReconciler, Planned};
use super::state::State;
use crate::events::rejection;
use crate::random::fresh_password;

/// What became of the writes of a plan.
pub(super) enum InstanceWriteOutcome {
    /// All were made. The instance after the last write to it.
    Complete(Box<FireboltInstance>),
    /// The API server rejected an object. The next reconcile reports it and goes on with the other components.
    Rejected(ReconcileError),
}

impl InstanceReconciler {
    /// Makes the writes of a plan in its order, up to the first failure, and the status last.
    pub(super) async fn apply(
        &self,
        instance: &FireboltInstance,
        planned: &Planned,
        state: &mut State,
    ) -> Result<InstanceWriteOutcome, ReconcileError> {
        let mut apply = Apply {
            writer: Writer::new(&self.shared.access, instance.clone(), &mut state.expectations),
            planned,
            backoff: &mut state.backoff,
            accepted: &mut state.own.accepted,
            at: None,
        };
        let (done, at) = (apply.all().await, apply.at);
        let after = apply.writer.into_owner();
        let Err(error) = done else {
            for component in planned.plan.writes.iter().filter_map(component) {
                state.own.rejections.overcome(component);
            }
            return Ok(InstanceWriteOutcome::Complete(Box::new(after)));
        };
        let (Some(rejected), Some(component)) = (error.rejected_write(), at) else {
            return Err(error);
        };
        let message = rejection(&rejected, "the instance");
        state.expectations.invalidate();
        state
            .own
            .rejections
            .add(component, instance.metadata.generation, message);
        Ok(InstanceWriteOutcome::Rejected(error))
    }

    /// Writes to the status that the API server rejects a request, so that the instance cannot be reconciled. Best effort:
    /// the error itself is what the reconcile ends in. Returns the event that goes with it.
    pub(super) async fn apply_stuck(
        &self,
        instance: &FireboltInstance,
        error: &ReconcileError,
        now: Timestamp,
        state: &mut State,
    ) -> Option<PlannedEvent> {
        let rejection = error.rejection()?;
        let message = format!(
            "The operator cannot {}: {rejection}. Grant the missing permission, or change the policy that rejects the request; the \
             operator retries.",
            error.attempt()
        );
        let status = stuck(instance, message.clone(), now)?;
        let mut writer = Writer::new(&self.shared.access, instance.clone(), &mut state.expectations);
        match writer.patch_status(&status).await {
            Ok(()) => Some(PlannedEvent::warning(
                <&str>::from(InstanceReason::EnsureFailed),
                message,
            )),
            Err(error) => {
                debug!("cannot report the rejection: {error}");
                None
            }
        }
    }
}

struct Apply<'a> {
    writer: Writer<'a, FireboltInstance>,
    planned: &'a Planned,
    backoff: &'a mut Backoff,
    accepted: &'a mut BTreeMap<InstanceObject, AcceptedDrift>,
    /// The component whose object is being written.
    at: Option<Component>,
}

impl Apply<'_> {
    async fn all(&mut self) -> Result<(), ReconcileError> {
        let plan = &self.planned.plan;
        let planned_from = self.writer.owner().status.clone();
        if plan.writes.first().is_some_and(|write| !guards_itself(write)) {
            self.writer.confirm().await?;
        }
        for write in &plan.writes {
            self.at = component(write);
            self.write(write).await?;
            self.backoff.reset();
        }
        self.at = None;
        if let Some(status) = &plan.status {
            self.writer.status(status, planned_from.as_ref()).await?;
        }
        Ok(())
    }

    /// Who set the fields of an object.
    fn ownership(&self, object: InstanceObject) -> FieldOwnership {
        let objects = &self.planned.snapshot.objects;
        let metadata = objects.metadata(object, &self.planned.desired.effective.name);
        metadata.map_or(FieldOwnership::Created, |metadata| {
            FieldOwnership::of(metadata, FIELD_MANAGER)
        })
    }

    async fn write(&mut self, write: &InstanceWrite) -> Result<(), ReconcileError> {
        match write {
            InstanceWrite::AddFinalizer => self.writer.set_finalizer(Finalizer::Instance.key(), true).await,
            InstanceWrite::RemoveFinalizer => self.writer.set_finalizer(Finalizer::Instance.key(), false).await,
            InstanceWrite::SetId(id) => self.writer.patch(json!({ "spec": { "id": id } })).await,
            InstanceWrite::Create(InstanceObject::PostgresCredentials) => {
                // Generated here and kept nowhere else; never written a second time.
                let secret = postgres_credentials(&self.planned.desired.effective, &fresh_password());
                self.writer.create(&secret).await.map(drop)
            }
            InstanceWrite::Create(object) | InstanceWrite::Apply(object) => self.put(*object).await,
            InstanceWrite::Delete { kind, name, uid } => self.delete(*kind, name, uid).await,
        }
    }

    async fn put(&mut self, object: InstanceObject) -> Result<(), ReconcileError> {
        match self.planned.comparison.rendered.get(&object).cloned() {
            // Planned from credentials that are not known: another reconcile is due.
            None => Err(ReconcileError::Conflict {
                object: ObjectKey::of(self.writer.owner()),
            }),
            // Boxed, because these are large.
            Some(Rendered::StatefulSet(rendered)) => Box::pin(self.put_one(object, rendered)).await,
            Some(Rendered::Deployment(rendered)) => Box::pin(self.put_one(object, rendered)).await,
            Some(Rendered::Service(rendered)) => self.put_one(object, rendered).await,
            Some(Rendered::ConfigMap(rendered)) => self.put_one(object, rendered).await,
            Some(Rendered::ServiceAccount(rendered)) => self.put_one(object, rendered).await,
            Some(Rendered::Role(rendered)) => self.put_one(object, rendered).await,
            Some(Rendered::RoleBinding(rendered)) => self.put_one(object, rendered).await,
            Some(Rendered::PodDisruptionBudget(rendered)) => self.put_one(object, rendered).await,
        }
    }

    async fn put_one<K: Child + Metadata<Ty = ObjectMeta>>(
        &mut self,
        object: InstanceObject,
        rendered: K,
    ) -> Result<(), ReconcileError> {
        let written = match self.planned.comparison.observed.objects.get(&object) {
            None => self.writer.create(&rendered).await?,
            Some(live) => {
                let fields = self.ownership(object);
                self.writer.apply(rendered.clone(), &live.meta.uid, fields).await?
            }
        };
        // Whatever an admission policy of the cluster makes of it is not corrected for ever.
        match AcceptedDrift::between(&rendered, &written) {
            None => self.accepted.remove(&object),
            Some(drift) => self.accepted.insert(object, drift),
        };
        Ok(())
    }

    async fn delete(&mut self, kind: InstanceObjectKind, name: &str, uid: &str) -> Result<(), ReconcileError> {
        // With pods: these are deleted first, so that nothing runs once the object is gone.
        let (with_pods, alone) = (PropagationPolicy::Foreground, PropagationPolicy::Background);
        let writer = &mut self.writer;
        match kind {
            InstanceObjectKind::StatefulSet => writer.delete::<StatefulSet>(name, uid, with_pods).await,
            InstanceObjectKind::Deployment => writer.delete::<Deployment>(name, uid, with_pods).await,
            InstanceObjectKind::Service => writer.delete::<Service>(name, uid, alone).await,
            InstanceObjectKind::ConfigMap => writer.delete::<ConfigMap>(name, uid, alone).await,
            InstanceObjectKind::Secret => writer.delete::<Secret>(name, uid, alone).await,
            InstanceObjectKind::ServiceAccount => writer.delete::<ServiceAccount>(name, uid, alone).await,
            InstanceObjectKind::Role => writer.delete::<Role>(name, uid, alone).await,
            InstanceObjectKind::RoleBinding => writer.delete::<RoleBinding>(name, uid, alone).await,
            InstanceObjectKind::PodDisruptionBudget => writer.delete::<PodDisruptionBudget>(name, uid, alone).await,
            InstanceObjectKind::PersistentVolumeClaim => writer.delete::<PersistentVolumeClaim>(name, uid, alone).await,
        }
    }
}

/// Writes to the instance itself contain the version that they were planned from.
fn guards_itself(write: &InstanceWrite) -> bool {
    match write {
        InstanceWrite::AddFinalizer | InstanceWrite::RemoveFinalizer | InstanceWrite::SetId(_) => true,
        InstanceWrite::Create(_) | InstanceWrite::Apply(_) | InstanceWrite::Delete { .. } => false,
    }
}

/// The component that an object to be written belongs to.
fn component(write: &InstanceWrite) -> Option<Component> {
    match write {
        InstanceWrite::Create(object) | InstanceWrite::Apply(object) => Some(object.component()),
        InstanceWrite::AddFinalizer
        | InstanceWrite::RemoveFinalizer
        | InstanceWrite::SetId(_)
        | InstanceWrite::Delete { .. } => None,
    }
}
