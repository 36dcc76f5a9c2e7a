//! What an engine is to be: the engine, its class, its instance and the operator's defaults, or why that cannot be said.

use std::time::Duration;

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance, MetricScrapeMode};
use firebolt_core::admit;
use firebolt_core::plan::engine::{Desired, DrainSettings, Gate, GateCause};
use firebolt_core::render::engine as render;
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::engine::{self as resolve, EffectiveEngine, InstanceFacts};
use kube::{Api, Client};

use crate::key::ObjectKey;
use crate::settings::Settings;
use crate::watches::{Caches, Store, Watched};
use crate::write::{LONGEST_REQUEST, PassError};

/// How often an old generation is looked at that is not waited for. Nothing depends on it.
const NOT_WAITED_FOR: Duration = Duration::from_secs(5);

/// What is wanted of one engine.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Everything resolved. While something is missing, only the identity of the engine in it is right.
    pub effective: EffectiveEngine,
    /// What to roll out, or why nothing can be rendered.
    pub desired: Result<Desired, Gate>,
    /// How an old generation is given up.
    pub drain: DrainSettings,
    /// The way to the metrics of pods.
    pub transport: MetricScrapeMode,
}

/// Puts together what is wanted, from the caches.
pub fn wish(engine: &FireboltEngine, caches: &Caches, settings: &Settings) -> Wish {
    let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
    let instance = find(&caches.instances, namespace, &engine.spec.instance_ref);
    let class = (engine.spec.engine_class_ref.as_deref()).map(|name| find(&caches.engine_classes, namespace, name));
    wish_from(engine, class, &instance, &settings.defaults, &settings.bounds)
}

/// Puts together what is wanted, from the API server.
pub async fn live(client: &Client, engine: &FireboltEngine, settings: &Settings) -> Result<Wish, PassError> {
    let namespace = engine.metadata.namespace.as_deref().unwrap_or_default();
    let instance = get(client, namespace, &engine.spec.instance_ref).await?;
    let class = match engine.spec.engine_class_ref.as_deref() {
        Some(name) => Some(get(client, namespace, name).await?),
        None => None,
    };
    Ok(wish_from(
        engine,
        class,
        &instance,
        &settings.defaults,
        &settings.bounds,
    ))
}

async fn get<K: Watched>(client: &Client, namespace: &str, name: &str) -> Result<Lookup<K>, PassError> {
    let key = ObjectKey::new(namespace, name);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    match tokio::time::timeout(LONGEST_REQUEST, api.get_opt(name)).await {
        Ok(Ok(Some(object))) => Ok(Lookup::Found(object)),
        Ok(Ok(None)) => Ok(Lookup::Missing),
        Ok(Err(error)) => Err(PassError::read("get", &K::kind(&()), &key, error)),
        Err(_elapsed) => Err(PassError::TimedOut {
            verb: "get",
            kind: "object named by FireboltEngine".to_owned(),
            object: key,
            limit: LONGEST_REQUEST,
        }),
    }
}

impl Wish {
    /// The same, but not to be rendered.
    pub fn but(&self, gate: Gate) -> Self {
        Self {
            desired: Err(gate),
            ..self.clone()
        }
    }
}

fn wish_from(
    engine: &FireboltEngine,
    class: Option<Lookup<FireboltEngineClass>>,
    instance: &Lookup<FireboltInstance>,
    defaults: &Defaults,
    bounds: &admit::Bounds,
) -> Wish {
    let class = class.map(|class| usable(engine, class)).transpose();
    let known_class = class.as_ref().ok().and_then(Option::as_ref);
    let facts = facts(engine, instance);
    let effective = {
        let unknown = InstanceFacts {
            id: String::new(),
            metadata_endpoint: String::new(),
        };
        resolve::resolve(engine, known_class, facts.as_ref().unwrap_or(&unknown), defaults)
    };
    // The order is the precedence: without its instance, nothing else about an engine matters.
    let gate = (facts.err())
        .or_else(|| class.as_ref().err().cloned())
        .or_else(|| {
            let violations = template_violations(engine, known_class, instance);
            rejected(GateCause::TemplateRejected, "The template of this engine", &violations)
        })
        .or_else(|| {
            let exceeded = admit::bounds(engine, known_class, bounds);
            rejected(GateCause::BoundsExceeded, "The engine container", &exceeded)
        });
    let drain_check = resolve::drain_check(engine, known_class);
    Wish {
        desired: match gate {
            Some(gate) => Err(gate),
            None => Ok(Desired {
                fingerprint: render::fingerprint(&effective),
                auto_stop: effective.auto_stop.clone(),
            }),
        },
        drain: DrainSettings {
            waits: drain_check.is_some(),
            interval: drain_check.unwrap_or(NOT_WAITED_FOR),
        },
        transport: match instance {
            Lookup::Found(instance) => instance.spec.metric_scrape_mode,
            Lookup::Missing | Lookup::Unreadable(_) => MetricScrapeMode::default(),
        },
        effective,
    }
}

/// What is wrong with the template, alone and together with the class.
fn template_violations(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    instance: &Lookup<FireboltInstance>,
) -> Vec<admit::Violation> {
    let instance = match instance {
        Lookup::Found(instance) => Some(instance),
        Lookup::Missing | Lookup::Unreadable(_) => None,
    };
    let with_class = class.map(|class| admit::engine_with_class(engine, class, instance));
    let mut violations = admit::engine_template(engine, instance);
    violations.extend(with_class.into_iter().flatten());
    violations
}

enum Lookup<K> {
    Found(K),
    Missing,
    Unreadable(String),
}

fn find<K: Watched>(store: &Store<K>, namespace: &str, name: &str) -> Lookup<K> {
    match store.get(&ObjectKey::new(namespace, name)) {
        None => Lookup::Missing,
        Some(object) => match &object.0 {
            Ok(object) => Lookup::Found(object.clone()),
            Err(unreadable) => Lookup::Unreadable(unreadable.error.clone()),
        },
    }
}

/// The class, or why it cannot be used.
fn usable(engine: &FireboltEngine, class: Lookup<FireboltEngineClass>) -> Result<FireboltEngineClass, Gate> {
    let name = engine.spec.engine_class_ref.as_deref().unwrap_or_default();
    let unready = |message: String| Gate {
        cause: GateCause::ClassUnready,
        message,
    };
    match class {
        Lookup::Found(class) => {
            let subject = format!("The template of FireboltEngineClass {name}");
            match rejected(GateCause::ClassUnready, &subject, &admit::engine_class(&class)) {
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
            "FireboltEngineClass {name} cannot be read: {error}. Correct it with `kubectl edit`."
        ))),
    }
}

/// What the engine needs of its instance, or what keeps it from having it.
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
                "FireboltInstance {name} does not exist in namespace {namespace}. Create it; the rollout goes on by itself."
            );
            return Err(not_ready(message));
        }
        Lookup::Unreadable(error) => {
            let message = format!("FireboltInstance {name} cannot be read: {error}. Correct it with `kubectl edit`.");
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
            "The metadata service of FireboltInstance {name} is not ready yet. See `kubectl describe fireboltinstance {name}`."
        );
        return Err(not_ready(message));
    }
    Ok(InstanceFacts {
        id: id.clone(),
        metadata_endpoint: endpoint.to_owned(),
    })
}

fn rejected(cause: GateCause, subject: &str, violations: &[admit::Violation]) -> Option<Gate> {
    (!violations.is_empty()).then(|| Gate {
        cause,
        message: format!("{subject} cannot be used: {}", admit::summary(violations)),
    })
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
