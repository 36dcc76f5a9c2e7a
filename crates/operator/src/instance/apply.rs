//! The writes of a plan, in its order, up to the first failure. Every prefix is a safe place to die.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use firebolt_api::key::Finalizer;
use firebolt_core::plan::instance::{Component, Kind, Object, Plan, Write};
use firebolt_core::render::instance::postgres_credentials;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PropagationPolicy;
use serde_json::json;

use super::decide::Decision;
use super::identity::fresh_password;
use super::memory::{Mark, Memory};
use super::objects::{Rendered, rendered};
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::Attempts;
use crate::write::{Child, Fields, PassError, Writer, Written};

/// What carries out the writes of one pass.
pub struct Apply<'a> {
    writer: Writer<'a, FireboltInstance>,
    decision: &'a Decision,
    attempts: &'a mut Attempts,
    settled: &'a mut BTreeMap<Object, Mark>,
    /// The component whose object is being written.
    pub at: Option<Component>,
}

impl<'a> Apply<'a> {
    pub fn new(
        context: &'a Context,
        instance: FireboltInstance,
        decision: &'a Decision,
        memory: &'a mut Memory,
    ) -> Self {
        Self {
            writer: writer(context, instance, &mut memory.written),
            decision,
            attempts: &mut memory.attempts,
            settled: &mut memory.settled,
            at: None,
        }
    }

    /// Writes everything, the status last. Gives back the instance as that left it.
    pub async fn plan(&mut self, plan: &Plan) -> Result<FireboltInstance, PassError> {
        let decided_from = self.writer.root.status.clone();
        if plan.writes.first().is_some_and(|write| !guards_itself(write)) {
            self.writer.confirm().await?;
        }
        for write in &plan.writes {
            self.at = component(write);
            self.write(write).await?;
            self.attempts.progressed();
        }
        self.at = None;
        if let Some(status) = &plan.status {
            self.writer.status(status, decided_from.as_ref()).await?;
        }
        Ok(self.writer.root.clone())
    }

    async fn write(&mut self, write: &Write) -> Result<(), PassError> {
        match write {
            Write::AddFinalizer => self.writer.finalizer(Finalizer::Instance, true).await,
            Write::RemoveFinalizer => self.writer.finalizer(Finalizer::Instance, false).await,
            Write::SetId(id) => self.writer.patch(json!({ "spec": { "id": id } })).await,
            Write::Create(Object::PostgresCredentials) => {
                // Made here and kept nowhere else; never written a second time.
                let secret = postgres_credentials(&self.decision.wish.effective, &fresh_password());
                self.writer.create(&secret).await.map(drop)
            }
            Write::Create(object) | Write::Apply(object) => self.put(*object).await,
            Write::Delete { kind, name, uid } => self.delete(*kind, name, uid).await,
        }
    }

    async fn put(&mut self, object: Object) -> Result<(), PassError> {
        let hash = self.decision.credentials_hash.as_deref();
        match rendered(object, &self.decision.wish.effective, hash) {
            // Planned from credentials that are not known: there is another look due.
            None => Err(PassError::Outdated {
                object: ObjectKey::of(&self.writer.root),
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

    async fn put_one<K: Child>(&mut self, object: Object, rendered: K) -> Result<(), PassError> {
        let written = match self.decision.observed.objects.get(&object) {
            None => self.writer.create(&rendered).await?,
            Some(seen) => {
                let fields = self.decision.fields.get(&object).copied().unwrap_or(Fields::Created);
                self.writer.apply(rendered.clone(), &seen.meta.uid, fields).await?
            }
        };
        // Whatever a policy of the cluster makes of it is not repaired for ever.
        let mark = Mark::of(&rendered, &written);
        if mark.is_clean() {
            self.settled.remove(&object);
        } else {
            self.settled.insert(object, mark);
        }
        Ok(())
    }

    async fn delete(&mut self, kind: Kind, name: &str, uid: &str) -> Result<(), PassError> {
        // With pods: they go first, so that what is gone is really gone.
        let (with_pods, alone) = (PropagationPolicy::Foreground, PropagationPolicy::Background);
        let writer = &mut self.writer;
        match kind {
            Kind::StatefulSet => writer.delete::<StatefulSet>(name, uid, with_pods).await,
            Kind::Deployment => writer.delete::<Deployment>(name, uid, with_pods).await,
            Kind::Service => writer.delete::<Service>(name, uid, alone).await,
            Kind::ConfigMap => writer.delete::<ConfigMap>(name, uid, alone).await,
            Kind::Secret => writer.delete::<Secret>(name, uid, alone).await,
            Kind::ServiceAccount => writer.delete::<ServiceAccount>(name, uid, alone).await,
            Kind::Role => writer.delete::<Role>(name, uid, alone).await,
            Kind::RoleBinding => writer.delete::<RoleBinding>(name, uid, alone).await,
            Kind::PodDisruptionBudget => writer.delete::<PodDisruptionBudget>(name, uid, alone).await,
            Kind::PersistentVolumeClaim => writer.delete::<PersistentVolumeClaim>(name, uid, alone).await,
        }
    }
}

/// What writes on behalf of an instance.
pub fn writer<'a>(
    context: &'a Context,
    instance: FireboltInstance,
    written: &'a mut Written<FireboltInstance>,
) -> Writer<'a, FireboltInstance> {
    Writer {
        client: &context.client,
        term: &context.term,
        metrics: &context.metrics.instances().work,
        root: instance,
        written,
    }
}

/// Writes to the instance itself carry the version that they were decided from.
fn guards_itself(write: &Write) -> bool {
    match write {
        Write::AddFinalizer | Write::RemoveFinalizer | Write::SetId(_) => true,
        Write::Create(_) | Write::Apply(_) | Write::Delete { .. } => false,
    }
}

/// The component that an object to be written belongs to.
fn component(write: &Write) -> Option<Component> {
    match write {
        Write::Create(object) | Write::Apply(object) => Some(object.component()),
        Write::AddFinalizer | Write::RemoveFinalizer | Write::SetId(_) | Write::Delete { .. } => None,
    }
}
