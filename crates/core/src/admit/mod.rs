//! `admit`: what a user may set. Nothing else knows; the webhook and the controllers both ask here.
//!
//! For each kind of pod template there is one ordered list of rules. A rule looks at one thing and names everything that
//! is wrong with it, so that a user sees all violations at once and in the same order every time. What is not refused
//! is forwarded to the pods as it is, save volumes under names of the operator, which its own take the place of.

mod bounds;
mod containers;
mod metadata;
mod owned;
mod pod;
mod violation;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::core::v1::PodTemplateSpec;

pub use bounds::{Bounds, Maximum, bounds};
pub use violation::{Kind, Violation, summary};

/// Something that must hold of a pod template. Paths in the answer start at the template.
type Rule = fn(&PodTemplateSpec) -> Vec<Violation>;

/// The rules for the templates of engines and of engine classes: what is accepted in one is accepted in the other.
const ENGINE: [Rule; 8] = [
    metadata::fields,
    metadata::keys,
    pod::fields,
    containers::names,
    containers::engine_fields,
    containers::engine_env,
    containers::engine_mounts,
    containers::init_names,
];

/// What is wrong with the template of an engine.
#[must_use]
pub fn engine(engine: &FireboltEngine) -> Vec<Violation> {
    let template = engine.spec.template.iter();
    template
        .flat_map(|template| check(template, "spec.template", &ENGINE))
        .collect()
}

/// What is wrong with the template of an engine class.
#[must_use]
pub fn engine_class(class: &FireboltEngineClass) -> Vec<Violation> {
    check(&class.spec.template, "spec.template", &ENGINE)
}

fn check(template: &PodTemplateSpec, path: &str, rules: &[Rule]) -> Vec<Violation> {
    let violations = rules.iter().flat_map(|rule| rule(template));
    violations.map(|violation| violation.below(path)).collect()
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
