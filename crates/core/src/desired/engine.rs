//! The desired state of an engine.

use std::time::Duration;

use firebolt_api::{AutoStop, FireboltEngine, FireboltEngineClass, FireboltInstance, MetricScrapeMode};

use super::Lookup;
use crate::admit;
use crate::plan::engine::{Desired, DrainSettings, Gate, GateCause};
use crate::render::engine as render;
use crate::resolve::Defaults;
use crate::resolve::engine::{self as resolve, EffectiveEngine, InstanceFacts};

/// The interval in the drain settings of an engine that does not wait for running queries. Nothing depends on it.
const NOT_WAITED_FOR: Duration = Duration::from_secs(5);

/// The objects that an engine refers to.
#[derive(Clone, Debug)]
pub struct References {
    /// The class; none if the engine names none.
    pub class: Option<Lookup<FireboltEngineClass>>,
    /// The instance.
    pub instance: Lookup<FireboltInstance>,
}

/// The desired state of one engine.
#[derive(Clone, Debug)]
pub struct DesiredEngine {
    /// Everything resolved. While a gate is closed, only the identity of the engine in it is right.
    pub effective: EffectiveEngine,
    /// The generation to roll out, or the gate that keeps it from being rendered.
    pub generation: Result<Desired, Gate>,
    /// The auto-stop policy, if there is one and it is known. A gate does not hide it, unless the class that has it is missing.
    pub auto_stop: Option<AutoStop>,
    /// Whether the engine can use its instance, or why it cannot.
    pub instance: Result<(), String>,
    /// How an old generation is given up.
    pub drain: DrainSettings,
    /// How the metrics of pods are reached.
    pub scrape_mode: MetricScrapeMode,
}

/// Resolves an engine with what it refers to, and checks whether the result may be rendered.
#[must_use]
pub fn desired(
    engine: &FireboltEngine,
    references: &References,
    defaults: &Defaults,
    bounds: &admit::Bounds,
) -> DesiredEngine {
    let instance = &references.instance;
    let class = references.class.as_ref().map(|class| usable(engine, class)).transpose();
    let known_class = class.as_ref().ok().copied().flatten();
    let facts = facts(engine, instance);
    let effective = {
        let unknown = InstanceFacts {
            id: String::new(),
            metadata_endpoint: String::new(),
        };
        resolve::resolve(engine, known_class, facts.as_ref().unwrap_or(&unknown), defaults)
    };
    // The order is the precedence: without its instance, nothing else about an engine matters.
    let usable_instance = match &facts {
        Ok(facts) => usable_instance(engine, facts),
        Err(gate) => Err(gate.message.clone()),
    };
    let gate = (facts.err())
        .or_else(|| class.as_ref().err().cloned())
        .or_else(|| {
            let violations = template_violations(engine, known_class, instance.found());
            rejected(GateCause::TemplateRejected, "The template of this engine", &violations)
        })
        .or_else(|| {
            let exceeded = admit::bounds(engine, known_class, bounds);
            rejected(
                GateCause::BoundsExceeded,
                "The resource configuration of the engine container",
                &exceeded,
            )
        });
    // Of a class whose template cannot be used, the other settings can.
    let found_class = references.class.as_ref().and_then(Lookup::found);
    let drain_check = resolve::drain_check(engine, found_class);
    DesiredEngine {
        auto_stop: resolve::auto_stop(engine, found_class),
        instance: usable_instance,
        generation: match gate {
            Some(gate) => Err(gate),
            None => Ok(Desired {
                template_hash: render::template_hash(&effective),
                rendering_hash: render::rendering_hash(&effective),
            }),
        },
        drain: DrainSettings {
            waits: drain_check.is_some(),
            interval: drain_check.unwrap_or(NOT_WAITED_FOR),
        },
        scrape_mode: instance
            .found()
            .map(|instance| instance.spec.metric_scrape_mode)
            .unwrap_or_default(),
        effective,
    }
}

/// The violations of the template, alone and together with the class.
fn template_violations(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    instance: Option<&FireboltInstance>,
) -> Vec<admit::Violation> {
    let with_class = class.map(|class| admit::engine_with_class(engine, class, instance));
    let mut violations = admit::engine_template(engine, instance);
    violations.extend(with_class.into_iter().flatten());
    violations
}

/// The class, or the gate that it closes.
fn usable<'a>(
    engine: &FireboltEngine,
    class: &'a Lookup<FireboltEngineClass>,
) -> Result<&'a FireboltEngineClass, Gate> {
    let name = engine.spec.engine_class_ref.as_deref().unwrap_or_default();
    let unready = |message: String| Gate {
        cause: GateCause::ClassUnready,
        message,
    };
    match class {
        Lookup::Found(class) => {
            let subject = format!("The template of FireboltEngineClass {name}");
            match rejected(GateCause::ClassUnready, &subject, &admit::engine_class(class)) {
                None => Ok(class),
                Some(gate) => Err(gate),
            }
        }
        Lookup::Missing => {
            let violations = admit::class_reference(engine, &admit::ClassLookup::Missing);
            Err(unready(
                violations.into_iter().map(|violation| violation.message).collect(),
            ))
        }
        Lookup::Unreadable(error) => Err(unready(format!(
            "FireboltEngineClass {name} cannot be parsed: {error}. Correct it with `kubectl edit`."
        ))),
    }
}

/// What the engine needs of its instance, or the gate that the instance closes.
fn facts(engine: &FireboltEngine, instance: &Lookup<FireboltInstance>) -> Result<InstanceFacts, Gate> {
    let name = &engine.spec.instance_ref;
    let not_ready = |message: String| Gate {
        cause: GateCause::InstanceNotReady,
        message,
    };
    let instance = match instance {
        Lookup::Found(instance) => instance,
        Lookup::Missing => {
            let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "FireboltInstance {name} does not exist in namespace {namespace}. Create it; the rollout then \
                 continues automatically."
            );
            return Err(not_ready(message));
        }
        Lookup::Unreadable(error) => {
            let message = format!("FireboltInstance {name} cannot be parsed: {error}. Correct it with `kubectl edit`.");
            return Err(not_ready(message));
        }
    };
    let Some(id) = instance.spec.id.as_ref().filter(|id| !id.is_empty()) else {
        return Err(not_ready(format!(
            "FireboltInstance {name} has no spec.id yet. Set it, or wait until the operator does."
        )));
    };
    let endpoint = instance.status.as_ref().map_or("", |status| &status.metadata_endpoint);
    let own = engine.spec.metadata_endpoint_override.as_deref().unwrap_or_default();
    if endpoint.is_empty() && own.is_empty() {
        let message = format!(
            "{}, so no rollout can start. {}",
            without_endpoint(engine),
            describe_instance(engine)
        );
        return Err(not_ready(message));
    }
    Ok(InstanceFacts {
        id: id.clone(),
        metadata_endpoint: endpoint.to_owned(),
    })
}

/// Whether the engine can use its instance. One that reaches the metadata service over a path of its own is not held up by the
/// instance, but depends on it all the same.
fn usable_instance(engine: &FireboltEngine, facts: &InstanceFacts) -> Result<(), String> {
    if !facts.metadata_endpoint.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}. The engine uses spec.metadataEndpointOverride, so it is rolled out all the same. {}",
        without_endpoint(engine),
        describe_instance(engine)
    ))
}

fn without_endpoint(engine: &FireboltEngine) -> String {
    format!(
        "The metadata service of FireboltInstance {} is not ready",
        engine.spec.instance_ref
    )
}

fn describe_instance(engine: &FireboltEngine) -> String {
    let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
    format!(
        "See `kubectl describe fireboltinstance {} -n {namespace}`.",
        engine.spec.instance_ref
    )
}

fn rejected(cause: GateCause, subject: &str, violations: &[admit::Violation]) -> Option<Gate> {
    (!violations.is_empty()).then(|| Gate {
        cause,
        message: format!("{subject} is rejected: {}", admit::summary(violations)),
    })
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
