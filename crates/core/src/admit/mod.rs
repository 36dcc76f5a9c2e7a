//! `admit`: what a user may set. Nothing else knows; the webhook and the controllers both ask here.
//!
//! For each kind of pod template there is one ordered list of rules. A rule looks at one thing and names everything that
//! is wrong with it, so that a user sees all violations at once and in the same order every time. What is not refused
//! is forwarded to the pods as it is, save volumes of engines under names of the operator, which its own take the place
//! of.
//!
//! An engine is judged with what stands around it: the class whose lists its own are added to, the instance whose Secrets
//! it may not read, and the bounds of the cluster. What engines depend on is judged with the engines. `tests/rows.rs` says
//! every rule in a sentence, with an object that breaks it.

mod advice;
mod bounds;
mod component;
mod containers;
mod dependents;
mod engine;
mod metadata;
mod owned;
mod pod;
mod references;
mod rehearsal;
mod secrets;
mod settings;
mod sidecars;
mod unique;
mod violation;
mod volumes;

use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use component::{Component, ENGINE, GATEWAY, METADATA, Template};

pub use advice::{advice, instance_advice};
pub use bounds::{Bounds, Maximum, bounds};
pub use dependents::{engine_class_deletion, instance_change, instance_deletion};
pub use engine::{
    ClassLookup, EngineSurroundings, class_reference, engine, engine_template, engine_with_class, new_class_reference,
};
pub use rehearsal::{Objection, engine_class_objections, engine_objections, gateway_objections, metadata_objections};
pub use violation::{Kind, Violation, summary};

/// What is wrong with the template of an engine class. What depends on the engine that uses it, [`engine_with_class`]
/// says.
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
    std::iter::once(InstanceNames(name).postgres_credentials())
        .chain(external_credentials(instance))
        .collect()
}

/// The Secret with the credentials of an external database. An empty name stands for none.
fn external_credentials(instance: &FireboltInstance) -> Option<String> {
    let external = instance.spec.metadata.postgres.as_ref()?;
    Some(external.credentials_secret_ref.name.clone()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
