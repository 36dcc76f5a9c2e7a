//! `admit`: what a user may set. Nothing else knows; the webhook and the controllers both ask here.
//!
//! For each kind of pod template there is one ordered list of rules. A rule looks at one thing and names everything that
//! is wrong with it, so that a user sees all violations at once and in the same order every time. What is not refused
//! is forwarded to the pods as it is, save volumes of engines under names of the operator, which its own take the place
//! of.

mod bounds;
mod component;
mod containers;
mod metadata;
mod owned;
mod pod;
mod secrets;
mod settings;
mod sidecars;
mod violation;
mod volumes;

use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use component::{Component, ENGINE, GATEWAY, METADATA, Template};

pub use bounds::{Bounds, Maximum, bounds};
pub use violation::{Kind, Violation, summary};

/// What is wrong with the template of an engine.
#[must_use]
pub fn engine(engine: &FireboltEngine) -> Vec<Violation> {
    check(engine.spec.template.as_ref(), &ENGINE, &[])
}

/// What is wrong with the template of an engine class.
#[must_use]
pub fn engine_class(class: &FireboltEngineClass) -> Vec<Violation> {
    check(Some(&class.spec.template), &ENGINE, &[])
}

/// Everything that is wrong with an instance: first what concerns its metadata service, then its gateway.
#[must_use]
pub fn instance(instance: &FireboltInstance) -> Vec<Violation> {
    [
        metadata_settings(instance),
        metadata_template(instance),
        gateway_settings(instance),
        gateway_template(instance),
    ]
    .concat()
}

/// What is wrong with the settings of the metadata service outside of its template.
#[must_use]
pub fn metadata_settings(instance: &FireboltInstance) -> Vec<Violation> {
    settings::metadata(instance)
}

/// What is wrong with the template of the metadata service.
#[must_use]
pub fn metadata_template(instance: &FireboltInstance) -> Vec<Violation> {
    let template = instance.spec.metadata.template.as_ref();
    check(template, &METADATA, &credentials(instance))
}

/// What is wrong with the settings of the gateway outside of its template.
#[must_use]
pub fn gateway_settings(instance: &FireboltInstance) -> Vec<Violation> {
    settings::gateway(instance)
}

/// What is wrong with the template of the gateway.
#[must_use]
pub fn gateway_template(instance: &FireboltInstance) -> Vec<Violation> {
    let template = instance.spec.gateway.template.as_ref();
    check(template, &GATEWAY, &credentials(instance))
}

fn check(template: Option<&PodTemplateSpec>, component: &'static Component, secrets: &[String]) -> Vec<Violation> {
    let templates = template.into_iter().map(|pod| Template {
        pod,
        component,
        secrets,
    });
    templates.flat_map(|template| template.violations()).collect()
}

/// The Secrets with credentials of the metadata database: the operator's, and that of an external database.
fn credentials(instance: &FireboltInstance) -> Vec<String> {
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    let external = instance.spec.metadata.postgres.iter();
    let external = external.map(|external| external.credentials_secret_ref.name.clone());
    // An empty name stands for none.
    std::iter::once(InstanceNames(name).postgres_credentials())
        .chain(external.filter(|name| !name.is_empty()))
        .collect()
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
