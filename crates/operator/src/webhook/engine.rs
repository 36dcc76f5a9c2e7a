//! What may be done to engines.

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_core::admit::{self, ClassLookup, EngineSurroundings, Kind, Objection, Violation};
use firebolt_core::render::engine::stateful_set;
use firebolt_core::resolve::engine::{InstanceFacts, resolve};
use k8s_openapi::api::apps::v1::StatefulSet;

use super::judge::{Judge, Lookup, Trouble, Wanted};
use super::review::{Request, Verdict};
use crate::key::ObjectKey;

/// Stands for what an object that is not stored yet has no value of.
pub(super) const PLACEHOLDER: &str = "00000000-0000-0000-0000-000000000000";
/// The generation that is rendered to be tried.
const GENERATION: i64 = 0;

impl Judge {
    /// Creations and changes.
    pub async fn engine(&self, request: &Request) -> Result<Verdict, Trouble> {
        let engine: FireboltEngine = match self.wanted(request) {
            Wanted::Object(engine) => *engine,
            Wanted::Settled(verdict) => return Ok(verdict),
        };
        let before: Option<FireboltEngine> = Self::before(request);
        if before.as_ref().is_some_and(|before| judged(before) == judged(&engine)) {
            // Not judged again: an engine that has become bad through somebody else's doing can still be scaled, woken
            // and deleted.
            return Ok(Verdict::accepted());
        }
        let binds = before.is_none_or(|before| before.spec.engine_class_ref != engine.spec.engine_class_ref);
        let (spec, key) = (&engine.spec, |name: &str| ObjectKey::new(&request.namespace, name));
        let instance = self.find(&self.caches.instances, &key(&spec.instance_ref)).await?;
        // Not from the cache: an engine is accepted or refused for what its class is now, not for what it was.
        let class = match spec.engine_class_ref.as_deref() {
            Some(name) => Some(self.look_up(&key(name)).await?),
            None => None,
        };
        let around = EngineSurroundings {
            class: match &class {
                None => ClassLookup::NotNamed,
                Some(Lookup::Missing) => ClassLookup::Missing,
                Some(Lookup::Found(class)) => ClassLookup::Found(class),
                Some(Lookup::Unreadable(error)) => return Ok(Verdict::of(vec![unreadable_class(error)])),
            },
            instance: instance.found(),
            bounds: &self.settings.bounds,
        };
        let mut violations = admit::engine(&engine, &around);
        if binds {
            violations.extend(admit::new_class_reference(&around.class));
        }
        let class = around.class.found();
        // What is bad by our own rules is not rendered, not even to try it. Without anything that a user wrote there is
        // nothing to try either.
        if violations.is_empty() && (class.is_some() || spec.template.is_some() || spec.storage != <_>::default()) {
            violations = self.rehearse_engine(&engine, class, instance.found()).await;
        }
        let warnings = match &instance {
            // It is there.
            Lookup::Unreadable(_) => Vec::new(),
            Lookup::Found(_) | Lookup::Missing => admit::advice(&engine, &around),
        };
        Ok(Verdict {
            violations,
            warnings,
            ..Verdict::default()
        })
    }

    async fn rehearse_engine(
        &self,
        engine: &FireboltEngine,
        class: Option<&FireboltEngineClass>,
        instance: Option<&FireboltInstance>,
    ) -> Vec<Violation> {
        let (rendered, objections) = self.rehearse_set(engine, class, instance).await;
        admit::engine_objections(engine, class, &rendered, &objections)
    }

    /// What Kubernetes says to the StatefulSet of an engine.
    pub(super) async fn rehearse_set(
        &self,
        engine: &FireboltEngine,
        class: Option<&FireboltEngineClass>,
        instance: Option<&FireboltInstance>,
    ) -> (StatefulSet, Vec<Objection>) {
        let facts = InstanceFacts {
            id: instance
                .and_then(|instance| instance.spec.id.clone())
                .unwrap_or_default(),
            metadata_endpoint: String::new(),
        };
        let mut effective = resolve(engine, class, &facts, &self.settings.defaults);
        PLACEHOLDER.clone_into(&mut effective.uid);
        let rendered = stateful_set(&effective, GENERATION);
        let objections = self.rehearse(&rendered).await;
        (rendered, objections)
    }
}

fn unreadable_class(error: &str) -> Violation {
    Violation {
        path: "spec.engineClassRef".to_owned(),
        kind: Kind::Invalid,
        message: format!("The FireboltEngineClass cannot be read: {error}. Correct it with `kubectl edit`."),
    }
}

/// What the rules look at, and what pods are made from. Everything else can change without being judged.
fn judged(engine: &FireboltEngine) -> impl PartialEq + use<'_> {
    let spec = &engine.spec;
    (
        &spec.template,
        &spec.engine_class_ref,
        &spec.instance_ref,
        &spec.storage,
        spec.ui_sidecar,
    )
}
