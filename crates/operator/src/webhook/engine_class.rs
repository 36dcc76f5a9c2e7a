//! Validation of engine classes.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::admit;

use super::review::{AdmissionRequest, AdmissionResponse, Operation};
use super::validator::{LookupError, RequestObject, Validator, object_key};

impl Validator {
    /// Validates the creation, change or deletion of a class.
    pub(super) async fn engine_class(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        match request.operation {
            Operation::Create | Operation::Update => Ok(Box::pin(self.store_engine_class(request)).await),
            Operation::Delete => self.delete_engine_class(request).await,
            Operation::Connect => Ok(AdmissionResponse::allowed()),
        }
    }

    async fn store_engine_class(&self, request: &AdmissionRequest) -> AdmissionResponse {
        let class: FireboltEngineClass = match self.request_object(request) {
            RequestObject::Validate(class) => *class,
            RequestObject::Respond(response) => return response,
        };
        let old: Option<FireboltEngineClass> = Self::old_object(request);
        if old.is_some_and(|old| validated(&old) == validated(&class)) {
            return AdmissionResponse::allowed();
        }
        let mut violations = admit::engine_class(&class);
        if violations.is_empty() {
            let mut engine = FireboltEngine::default();
            engine.metadata.name = Some("any".to_owned());
            engine.metadata.namespace = Some(request.namespace.clone());
            engine.spec.engine_class_ref = class.metadata.name.clone();
            let (rendered, causes) = self.dry_run_stateful_set(&engine, Some(&class), None).await;
            violations = admit::engine_class_dry_run_violations(&class, &rendered, &causes);
        }
        AdmissionResponse::from_violations(violations)
    }

    async fn delete_engine_class(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        if !self.in_scope(&request.namespace) {
            return Ok(AdmissionResponse::allowed());
        }
        let class = object_key(request)?;
        let refers = |engine: &FireboltEngine| engine.spec.engine_class_ref.as_ref() == Some(&class.name);
        let engines = self.engines_referencing(&class, refers).await?;
        let violation = admit::engine_class_deletion(&class.name, &class.namespace, &engines);
        Ok(AdmissionResponse::from_violations(violation.into_iter().collect()))
    }
}

/// The fields that the rules check and that pods are rendered from.
fn validated(class: &FireboltEngineClass) -> impl PartialEq + use<'_> {
    let spec = &class.spec;
    (&spec.template, &spec.storage, spec.ui_sidecar)
}
