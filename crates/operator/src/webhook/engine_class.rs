//! What may be done to engine classes.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::admit;

use super::judge::{Judge, Trouble, Wanted, key_of};
use super::review::{Operation, Request, Verdict};

impl Judge {
    /// Creations, changes and deletions.
    pub async fn engine_class(&self, request: &Request) -> Result<Verdict, Trouble> {
        match request.operation {
            Operation::Create | Operation::Update => Ok(Box::pin(self.stored_class(request)).await),
            Operation::Delete => self.deleted_class(request).await,
            Operation::Connect => Ok(Verdict::accepted()),
        }
    }

    async fn stored_class(&self, request: &Request) -> Verdict {
        let class: FireboltEngineClass = match self.wanted(request) {
            Wanted::Object(class) => *class,
            Wanted::Settled(verdict) => return verdict,
        };
        let before: Option<FireboltEngineClass> = Self::before(request);
        if before.is_some_and(|before| judged(&before) == judged(&class)) {
            return Verdict::accepted();
        }
        let mut violations = admit::engine_class(&class);
        if violations.is_empty() {
            let mut engine = FireboltEngine::default();
            engine.metadata.name = Some("any".to_owned());
            engine.metadata.namespace = Some(request.namespace.clone());
            engine.spec.engine_class_ref = class.metadata.name.clone();
            let (rendered, objections) = self.rehearse_set(&engine, Some(&class), None).await;
            violations = admit::engine_class_objections(&class, &rendered, &objections);
        }
        Verdict::of(violations)
    }

    async fn deleted_class(&self, request: &Request) -> Result<Verdict, Trouble> {
        if !self.looks_after(&request.namespace) {
            return Ok(Verdict::accepted());
        }
        let class = key_of(request)?;
        let refers = |engine: &FireboltEngine| engine.spec.engine_class_ref.as_ref() == Some(&class.name);
        let engines = self.engines_that(&class, refers).await?;
        let violation = admit::engine_class_deletion(&class.name, &class.namespace, &engines);
        Ok(Verdict::of(violation.into_iter().collect()))
    }
}

/// What the rules look at, and what pods are made from.
fn judged(class: &FireboltEngineClass) -> impl PartialEq + use<'_> {
    let spec = &class.spec;
    (&spec.template, &spec.storage, spec.ui_sidecar)
}
