//! Validation of engines.

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_core::admit::{self, Cause, ClassLookup, EngineContext, Violation, ViolationKind};
use firebolt_core::desired::Lookup;
use firebolt_core::render::engine::stateful_set;
use firebolt_core::resolve::engine::{InstanceFacts, resolve};
use firebolt_runtime::ObjectKey;
use k8s_openapi::api::apps::v1::StatefulSet;

use super::review::{AdmissionRequest, AdmissionResponse};
use super::validator::{LookupError, RequestObject, Validator};

/// Stands for the values that an object gets when it is stored.
pub(super) const PLACEHOLDER: &str = "00000000-0000-0000-0000-000000000000";
/// The generation that is rendered for the dry run.
const GENERATION: i64 = 0;

impl Validator {
    /// Validates the creation or change of an engine.
    pub(super) async fn engine(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        let engine: FireboltEngine = match self.request_object(request) {
            RequestObject::Validate(engine) => *engine,
            RequestObject::Respond(response) => return Ok(response),
        };
        let old: Option<FireboltEngine> = Self::old_object(request);
        if old.as_ref().is_some_and(|old| validated(old) == validated(&engine)) {
            // Not validated again: an engine that became invalid through another object can still be scaled, woken and
            // deleted.
            return Ok(AdmissionResponse::allowed());
        }
        let binds_class = old.is_none_or(|old| old.spec.engine_class_ref != engine.spec.engine_class_ref);
        let (spec, key) = (&engine.spec, |name: &str| ObjectKey::new(&request.namespace, name));
        let instance = self.get(&self.caches.instances, &key(&spec.instance_ref)).await?;
        // Live: the cached class may be outdated, and the response depends on the current one.
        let class = match spec.engine_class_ref.as_deref() {
            Some(name) => Some(self.get_live(&key(name)).await?),
            None => None,
        };
        let around = EngineContext {
            class: match &class {
                None => ClassLookup::NotNamed,
                Some(Lookup::Missing) => ClassLookup::Missing,
                Some(Lookup::Found(class)) => ClassLookup::Found(class),
                Some(Lookup::Unreadable(error)) => {
                    return Ok(AdmissionResponse::from_violations(vec![unreadable_class(error)]));
                }
            },
            instance: instance.found(),
            bounds: &self.settings.bounds,
        };
        let mut violations = admit::engine(&engine, &around);
        if binds_class {
            violations.extend(admit::new_class_reference(&around.class));
        }
        let class = around.class.found();
        // An engine that violates our own rules is not rendered. One without a class, template and storage renders only what
        // the operator itself sets, which needs no dry run.
        if violations.is_empty() && (class.is_some() || spec.template.is_some() || spec.storage != <_>::default()) {
            violations = self.dry_run_engine(&engine, class, instance.found()).await;
        }
        let warnings = match &instance {
            // It exists.
            Lookup::Unreadable(_) => Vec::new(),
            Lookup::Found(_) | Lookup::Missing => admit::engine_warnings(&engine, &around),
        };
        Ok(AdmissionResponse {
            violations,
            warnings,
            ..AdmissionResponse::default()
        })
    }

    async fn dry_run_engine(
        &self,
        engine: &FireboltEngine,
        class: Option<&FireboltEngineClass>,
        instance: Option<&FireboltInstance>,
    ) -> Vec<Violation> {
        let (rendered, causes) = self.dry_run_stateful_set(engine, class, instance).await;
        admit::engine_dry_run_violations(engine, class, &rendered, &causes)
    }

    /// Renders the `StatefulSet` of an engine, and returns it with the causes that the dry run reports.
    pub(super) async fn dry_run_stateful_set(
        &self,
        engine: &FireboltEngine,
        class: Option<&FireboltEngineClass>,
        instance: Option<&FireboltInstance>,
    ) -> (StatefulSet, Vec<Cause>) {
        let facts = InstanceFacts {
            id: instance
                .and_then(|instance| instance.spec.id.clone())
                .unwrap_or_default(),
            metadata_endpoint: String::new(),
        };
        let mut effective = resolve(engine, class, &facts, &self.settings.defaults);
        PLACEHOLDER.clone_into(&mut effective.uid);
        let rendered = stateful_set(&effective, GENERATION);
        let causes = self.dry_run(&rendered).await;
        (rendered, causes)
    }
}

fn unreadable_class(error: &str) -> Violation {
    Violation {
        path: "spec.engineClassRef".to_owned(),
        kind: ViolationKind::Invalid,
        message: format!("The FireboltEngineClass cannot be parsed: {error}. Correct it with `kubectl edit`."),
    }
}

/// The fields that the rules check and that pods are rendered from. All other fields can change without validation.
fn validated(engine: &FireboltEngine) -> impl PartialEq + use<'_> {
    let spec = &engine.spec;
    (
        &spec.template,
        &spec.engine_class_ref,
        &spec.instance_ref,
        &spec.storage,
        spec.ui_sidecar,
    )
}
