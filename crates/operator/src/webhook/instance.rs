//! What may be done to instances.

use firebolt_api::{FireboltEngine, FireboltInstance};
use firebolt_core::admit::{self, Violation};
use firebolt_core::render::instance::{gateway_deployment, metadata_deployment};
use firebolt_core::resolve::instance::resolve;
use jiff::Timestamp;
use serde_json::json;

use super::engine::PLACEHOLDER;
use super::judge::{Judge, Trouble, Wanted, key_of};
use super::review::{Operation, Request, Verdict};
use crate::instance::fresh_id;
use crate::key::ObjectKey;

impl Judge {
    /// Creations, changes and deletions.
    pub async fn instance(&self, request: &Request) -> Result<Verdict, Trouble> {
        match request.operation {
            Operation::Create | Operation::Update => Box::pin(self.stored_instance(request)).await,
            Operation::Delete => self.deleted_instance(request).await,
            Operation::Connect => Ok(Verdict::accepted()),
        }
    }

    /// Gives an instance that comes without an identity one of its own.
    #[must_use]
    pub fn identify(&self, request: &Request) -> Verdict {
        let Wanted::Object(instance) = self.wanted::<FireboltInstance>(request) else {
            // Whatever is wrong with it, others will say.
            return Verdict::accepted();
        };
        if request.operation != Operation::Create || instance.spec.id.is_some_and(|id| !id.is_empty()) {
            return Verdict::accepted();
        }
        let id = fresh_id(Timestamp::now());
        Verdict {
            patch: vec![json!({ "op": "add", "path": "/spec/id", "value": id })],
            ..Verdict::default()
        }
    }

    async fn stored_instance(&self, request: &Request) -> Result<Verdict, Trouble> {
        let instance: FireboltInstance = match self.wanted(request) {
            Wanted::Object(instance) => *instance,
            Wanted::Settled(verdict) => return Ok(verdict),
        };
        let before: Option<FireboltInstance> = Self::before(request);
        if before.as_ref().is_some_and(|before| before.spec == instance.spec) {
            return Ok(Verdict::accepted());
        }
        let mut verdict = Verdict::of(admit::instance(&instance));
        if let Some(before) = before
            .as_ref()
            .filter(|before| may_matter_to_engines(before, &instance))
        {
            let engines = self.engines_of(&key_of(request)?).await?;
            verdict
                .violations
                .extend(admit::instance_change(before, &instance, &engines));
            verdict.warnings = admit::instance_advice(before, &instance, &engines);
        }
        if verdict.accepts() {
            verdict.violations = self.rehearse_instance(&instance, before.as_ref()).await;
        }
        Ok(verdict)
    }

    async fn rehearse_instance(&self, instance: &FireboltInstance, old: Option<&FireboltInstance>) -> Vec<Violation> {
        let mut effective = resolve(instance, &self.settings.defaults, false);
        PLACEHOLDER.clone_into(&mut effective.uid);
        let spec = &instance.spec;
        let mut violations = Vec::new();
        let template = &spec.metadata.template;
        if template.is_some() && old.is_none_or(|old| old.spec.metadata.template != *template) {
            let rendered = metadata_deployment(&effective, PLACEHOLDER);
            let objections = self.rehearse(&rendered).await;
            violations.extend(admit::metadata_objections(instance, &rendered, &objections));
        }
        let template = &spec.gateway.template;
        if template.is_some() && old.is_none_or(|old| old.spec.gateway.template != *template) {
            let rendered = gateway_deployment(&effective);
            let objections = self.rehearse(&rendered).await;
            violations.extend(admit::gateway_objections(instance, &rendered, &objections));
        }
        violations
    }

    async fn deleted_instance(&self, request: &Request) -> Result<Verdict, Trouble> {
        if !self.looks_after(&request.namespace) {
            return Ok(Verdict::accepted());
        }
        let instance = key_of(request)?;
        let engines = self.engines_of(&instance).await?;
        let violation = admit::instance_deletion(&instance.name, &instance.namespace, &engines);
        Ok(Verdict::of(violation.into_iter().collect()))
    }

    /// The engines that hold on to an instance. Those that are going themselves do not: the finalizer of the instance waits
    /// for them.
    async fn engines_of(&self, instance: &ObjectKey) -> Result<Vec<String>, Trouble> {
        let refers = |engine: &FireboltEngine| {
            engine.spec.instance_ref == instance.name && engine.metadata.deletion_timestamp.is_none()
        };
        self.engines_that(instance, refers).await
    }
}

/// Only for these is it worth to ask which engines there are.
fn may_matter_to_engines(old: &FireboltInstance, new: &FireboltInstance) -> bool {
    old.spec.metadata.postgres != new.spec.metadata.postgres
}
