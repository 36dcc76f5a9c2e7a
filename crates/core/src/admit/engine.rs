//! Everything about an engine: its class, its template, both templates together, and what it asks for.

use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};

use super::bounds::{Bounds, bounds};
use super::component::{ENGINE, Template};
use super::references::Known;
use super::violation::{Kind, Violation};
use super::{check, external_credentials, secrets, unique};

/// Where an engine names its class.
const CLASS_REFERENCE: &str = "spec.engineClassRef";

/// The class that an engine names.
#[derive(Clone, Copy, Debug)]
pub enum ClassLookup<'a> {
    /// It names none.
    NotNamed,
    /// There is none of that name in its namespace.
    Missing,
    /// This one.
    Found(&'a FireboltEngineClass),
}

/// What an engine is judged together with.
#[derive(Clone, Copy, Debug)]
pub struct EngineSurroundings<'a> {
    /// The class that it names.
    pub class: ClassLookup<'a>,
    /// The instance that it refers to, if that exists.
    pub instance: Option<&'a FireboltInstance>,
    /// The most that its engine container may ask for.
    pub bounds: &'a Bounds,
}

/// Everything that is wrong with an engine.
#[must_use]
pub fn engine(engine: &FireboltEngine, around: &EngineSurroundings) -> Vec<Violation> {
    let class = around.class.found();
    let with_class = class.map(|class| engine_with_class(engine, class, around.instance));
    [
        class_reference(engine, &around.class),
        engine_template(engine, around.instance),
        with_class.unwrap_or_default(),
        bounds(engine, class, around.bounds),
    ]
    .concat()
}

impl<'a> ClassLookup<'a> {
    /// The class, if there is one.
    #[must_use]
    pub fn found(&self) -> Option<&'a FireboltEngineClass> {
        match self {
            Self::NotNamed | Self::Missing => None,
            Self::Found(class) => Some(class),
        }
    }
}

/// Whether the class that an engine names exists.
#[must_use]
pub fn class_reference(engine: &FireboltEngine, class: &ClassLookup) -> Vec<Violation> {
    match class {
        ClassLookup::NotNamed | ClassLookup::Found(_) => Vec::new(),
        ClassLookup::Missing => {
            let name = engine.spec.engine_class_ref.as_deref().unwrap_or_default();
            let message = format!(
                "FireboltEngineClass {name} does not exist in namespace {}. Create it, or correct spec.engineClassRef.",
                engine.metadata.namespace.as_deref().unwrap_or_default()
            );
            vec![Violation::new(CLASS_REFERENCE, Kind::NotFound, message)]
        }
    }
}

/// Why an engine may not begin to refer to a class: it is on its way out. Engines that refer to it already keep it.
#[must_use]
pub fn new_class_reference(class: &ClassLookup) -> Option<Violation> {
    let class = class
        .found()
        .filter(|class| class.metadata.deletion_timestamp.is_some())?;
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let message = format!("FireboltEngineClass {name} is being deleted. Name another class, or none.");
    Some(Violation::new(CLASS_REFERENCE, Kind::Forbidden, message))
}

/// What is wrong with the template of an engine, whatever class it has. What it refers to may come from the class, and
/// is looked at here only if there is none.
#[must_use]
pub fn engine_template(engine: &FireboltEngine, instance: Option<&FireboltInstance>) -> Vec<Violation> {
    let template = engine.spec.template.as_ref();
    let mut violations = check(template, &ENGINE, &credentials(engine, instance));
    if engine.spec.engine_class_ref.is_none() {
        let known = Known::of(engine, None);
        let missing = template
            .into_iter()
            .flat_map(|template| known.missing_for_engine(template));
        violations.extend(missing.map(|violation| violation.below(ENGINE.path)));
    }
    violations
}

/// What is wrong with an engine and a class together, though either may be fine by itself: what both have and pods have
/// once, what one of them refers to and neither has, and what of the class this engine may not read.
#[must_use]
pub fn engine_with_class(
    engine: &FireboltEngine,
    class: &FireboltEngineClass,
    instance: Option<&FireboltInstance>,
) -> Vec<Violation> {
    let class_name = class.metadata.name.as_deref().unwrap_or_default();
    let class_template = Template {
        pod: &class.spec.template,
        component: &ENGINE,
        secrets: &credentials(engine, instance),
    };
    let known = Known::of(engine, Some(class));
    let own = engine.spec.template.iter().flat_map(|template| {
        let twice = unique::across(class_template.pod, class_name, template);
        twice.into_iter().chain(known.missing_for_engine(template))
    });
    let inherited = [
        known.missing_for_class(class_template.pod),
        secrets::volumes(&class_template),
        secrets::own_variables(&class_template),
        secrets::variables(&class_template),
    ];
    own.map(|violation| violation.below(ENGINE.path))
        .chain(
            inherited
                .into_iter()
                .flatten()
                .map(|violation| of_class(violation, class_name)),
        )
        .collect()
}

/// The violation as one of the engine: it is the engine that is refused, for the class that it names.
fn of_class(violation: Violation, class: &str) -> Violation {
    let Violation { path, kind, message } = violation.below(ENGINE.path);
    let message = format!("FireboltEngineClass {class}, at {path}: {message}");
    Violation::new(CLASS_REFERENCE, kind, message)
}

/// The Secrets with credentials of the metadata database. That of the operator has a name that is known without the
/// instance.
fn credentials(engine: &FireboltEngine, instance: Option<&FireboltInstance>) -> Vec<String> {
    let own = InstanceNames(&engine.spec.instance_ref).postgres_credentials();
    let external = instance.and_then(external_credentials);
    std::iter::once(own).chain(external).collect()
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
