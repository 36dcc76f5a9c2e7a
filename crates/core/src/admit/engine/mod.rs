//! Validation of an engine: its class, its template, both templates together, and its resources.

mod bounds;
mod references;

use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};

use super::{check, external_credentials};
use crate::admit::template::{ENGINE, Template};
use crate::admit::template::{secrets, unique};
use crate::admit::violation::{Violation, ViolationKind};
pub use bounds::{Bounds, Maximum, bounds};
use references::AvailableReferences;

/// Field in which an engine names its class.
const CLASS_REFERENCE: &str = "spec.engineClassRef";

/// Result of looking up the class of an engine.
#[derive(Clone, Copy, Debug)]
pub enum ClassLookup<'a> {
    /// The engine names no class.
    NotNamed,
    /// The class does not exist in the namespace of the engine.
    Missing,
    /// The class exists.
    Found(&'a FireboltEngineClass),
}

/// The objects and limits that an engine is validated against.
#[derive(Clone, Copy, Debug)]
pub struct EngineContext<'a> {
    /// The class of the engine.
    pub class: ClassLookup<'a>,
    /// The instance of the engine, if it exists.
    pub instance: Option<&'a FireboltInstance>,
    /// The resource bounds of the engine container.
    pub bounds: &'a Bounds,
}

/// All violations of an engine.
#[must_use]
pub fn engine(engine: &FireboltEngine, around: &EngineContext) -> Vec<Violation> {
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

/// The violation if the class of an engine does not exist.
#[must_use]
pub(crate) fn class_reference(engine: &FireboltEngine, class: &ClassLookup) -> Vec<Violation> {
    match class {
        ClassLookup::NotNamed | ClassLookup::Found(_) => Vec::new(),
        ClassLookup::Missing => {
            let name = engine.spec.engine_class_ref.as_deref().unwrap_or_default();
            let message = format!(
                "FireboltEngineClass {name} does not exist in namespace {}. Create it, or correct spec.engineClassRef.",
                engine.metadata.namespace.as_deref().unwrap_or_default()
            );
            vec![Violation::new(CLASS_REFERENCE, ViolationKind::NotFound, message)]
        }
    }
}

/// The violation if an engine starts to reference a class that is being deleted. Engines that already reference it keep
/// it.
#[must_use]
pub fn new_class_reference(class: &ClassLookup) -> Option<Violation> {
    let class = class
        .found()
        .filter(|class| class.metadata.deletion_timestamp.is_some())?;
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let message = format!("FireboltEngineClass {name} is being deleted. Reference another class, or none.");
    Some(Violation::new(CLASS_REFERENCE, ViolationKind::Forbidden, message))
}

/// Violations of the template of an engine, independent of its class. References may be provided by the class and are
/// checked here only if the engine has none.
#[must_use]
pub(crate) fn engine_template(engine: &FireboltEngine, instance: Option<&FireboltInstance>) -> Vec<Violation> {
    let template = engine.spec.template.as_ref();
    let mut violations = check(template, &ENGINE, &credentials(engine, instance));
    if engine.spec.engine_class_ref.is_none() {
        let known = AvailableReferences::of(engine, None);
        let missing = template
            .into_iter()
            .flat_map(|template| known.missing_for_engine(template));
        violations.extend(missing.map(|violation| violation.below(ENGINE.path)));
    }
    violations
}

/// Violations of an engine and its class together, even if each of them is valid: duplicates, references that neither
/// of them provides, and Secrets in the class that the engine may not read.
#[must_use]
pub(crate) fn engine_with_class(
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
    let known = AvailableReferences::of(engine, Some(class));
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

/// The violation as one of the engine, which is rejected because of the class that it names.
fn of_class(violation: Violation, class: &str) -> Violation {
    let Violation { path, kind, message } = violation.below(ENGINE.path);
    let message = format!("FireboltEngineClass {class}, at {path}: {message}");
    Violation::new(CLASS_REFERENCE, kind, message)
}

/// The Secrets with credentials of the metadata database. The name of that of the operator is known without the
/// instance.
fn credentials(engine: &FireboltEngine, instance: Option<&FireboltInstance>) -> Vec<String> {
    let own = InstanceNames(&engine.spec.instance_ref).postgres_credentials();
    let external = instance.and_then(external_credentials);
    std::iter::once(own).chain(external).collect()
}

#[cfg(test)]
mod tests;
