//! Validation and defaulting of instances.

use firebolt_api::{FireboltEngine, FireboltInstance};
use firebolt_core::admit::{self, Violation};
use firebolt_core::render::instance::{gateway_deployment, metadata_deployment};
use firebolt_core::resolve::instance::resolve;
use firebolt_runtime::ObjectKey;
use jiff::Timestamp;
use serde_json::json;

use super::engine::PLACEHOLDER;
use super::review::{AdmissionRequest, AdmissionResponse, Operation};
use super::validator::{LookupError, RequestObject, Validator, object_key};
use crate::random::fresh_id;

impl Validator {
    /// Validates the creation, change or deletion of an instance.
    pub(super) async fn instance(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        match request.operation {
            Operation::Create | Operation::Update => Box::pin(self.store_instance(request)).await,
            Operation::Delete => self.delete_instance(request).await,
            Operation::Connect => Ok(AdmissionResponse::allowed()),
        }
    }

    /// Sets `spec.id` of a new instance that has none.
    pub(super) fn default_instance(&self, request: &AdmissionRequest) -> AdmissionResponse {
        let RequestObject::Validate(instance) = self.request_object::<FireboltInstance>(request) else {
            // The validating webhook reports what is wrong with it.
            return AdmissionResponse::allowed();
        };
        if request.operation != Operation::Create || instance.spec.id.is_some_and(|id| !id.is_empty()) {
            return AdmissionResponse::allowed();
        }
        let id = fresh_id(Timestamp::now());
        AdmissionResponse {
            patch: vec![json!({ "op": "add", "path": "/spec/id", "value": id })],
            ..AdmissionResponse::default()
        }
    }

    async fn store_instance(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        let instance: FireboltInstance = match self.request_object(request) {
            RequestObject::Validate(instance) => *instance,
            RequestObject::Respond(response) => return Ok(response),
        };
        let old: Option<FireboltInstance> = Self::old_object(request);
        if old.as_ref().is_some_and(|old| old.spec == instance.spec) {
            return Ok(AdmissionResponse::allowed());
        }
        let mut response = AdmissionResponse::from_violations(admit::instance(&instance));
        if let Some(old) = old.as_ref().filter(|old| may_affect_engines(old, &instance)) {
            let engines = self.engines_of(&object_key(request)?).await?;
            response
                .violations
                .extend(admit::instance_change(old, &instance, &engines));
            response.warnings = admit::instance_warnings(old, &instance, &engines);
        }
        if response.is_allowed() {
            response.violations = self.dry_run_instance(&instance, old.as_ref()).await;
        }
        Ok(response)
    }

    async fn dry_run_instance(&self, instance: &FireboltInstance, old: Option<&FireboltInstance>) -> Vec<Violation> {
        let mut effective = resolve(instance, &self.settings.defaults, false);
        PLACEHOLDER.clone_into(&mut effective.uid);
        let spec = &instance.spec;
        let mut violations = Vec::new();
        let template = &spec.metadata.template;
        if template.is_some() && old.is_none_or(|old| old.spec.metadata.template != *template) {
            let rendered = metadata_deployment(&effective, PLACEHOLDER);
            let causes = self.dry_run(&rendered).await;
            violations.extend(admit::metadata_dry_run_violations(instance, &rendered, &causes));
        }
        let template = &spec.gateway.template;
        if template.is_some() && old.is_none_or(|old| old.spec.gateway.template != *template) {
            let rendered = gateway_deployment(&effective);
            let causes = self.dry_run(&rendered).await;
            violations.extend(admit::gateway_dry_run_violations(instance, &rendered, &causes));
        }
        violations
    }

    async fn delete_instance(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        if !self.in_scope(&request.namespace) {
            return Ok(AdmissionResponse::allowed());
        }
        let instance = object_key(request)?;
        let engines = self.engines_of(&instance).await?;
        let violation = admit::instance_deletion(&instance.name, &instance.namespace, &engines);
        Ok(AdmissionResponse::from_violations(violation.into_iter().collect()))
    }

    /// The engines that block the deletion of an instance. Engines that are being deleted do not: the finalizer of the
    /// instance waits for them.
    async fn engines_of(&self, instance: &ObjectKey) -> Result<Vec<String>, LookupError> {
        let refers = |engine: &FireboltEngine| {
            engine.spec.instance_ref == instance.name && engine.metadata.deletion_timestamp.is_none()
        };
        self.engines_referencing(instance, refers).await
    }
}

/// Only for such a change are the engines of the instance listed.
fn may_affect_engines(old: &FireboltInstance, new: &FireboltInstance) -> bool {
    old.spec.metadata.postgres != new.spec.metadata.postgres
}
