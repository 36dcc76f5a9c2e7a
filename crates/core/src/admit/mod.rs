//! `admit`: validation of what a user may set, for the webhook and for the controllers.
//!
//! Each kind of pod template has one ordered list of rules. A rule checks one aspect and reports every violation of it,
//! so that users see all violations at once and always in the same order. Fields that are not rejected are forwarded to
//! the pods unchanged, except volumes of engines with names that the operator uses, which are replaced by its own.
//!
//! An engine is validated together with its class, whose lists are merged with its own, with its instance, whose
//! Secrets it may not read, and with the resource bounds of the operator. `tests/every_rule.rs` shows each rule with an
//! object that violates it.

mod dependents;
mod dry_run;
mod engine;
mod settings;
mod template;
mod violation;
mod warnings;

use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use template::{ENGINE, GATEWAY, METADATA, Template, TemplateKind};

pub use dependents::{engine_class_deletion, instance_change, instance_deletion};
pub use dry_run::{
    Cause, engine_class_dry_run_violations, engine_dry_run_violations, gateway_dry_run_violations,
    metadata_dry_run_violations,
};
pub use engine::{Bounds, ClassLookup, EngineContext, Maximum, bounds, engine, new_class_reference};
pub(crate) use engine::{class_reference, engine_template, engine_with_class};
pub use violation::{Violation, ViolationKind, summary};
pub use warnings::{engine_warnings, instance_warnings};

/// Violations of the template of an engine class. Those that depend on the engine are returned by
/// `engine_with_class`.
#[must_use]
pub fn engine_class(class: &FireboltEngineClass) -> Vec<Violation> {
    check(Some(&class.spec.template), &ENGINE, &[])
}

/// All violations of an instance: first those of its metadata service, then those of its gateway.
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

/// Violations of the settings of the metadata service outside of its template.
#[must_use]
pub(crate) fn metadata_settings(instance: &FireboltInstance) -> Vec<Violation> {
    settings::metadata(instance)
}

/// Violations of the template of the metadata service.
#[must_use]
pub(crate) fn metadata_template(instance: &FireboltInstance) -> Vec<Violation> {
    let template = instance.spec.metadata.template.as_ref();
    check(template, &METADATA, &credentials(instance))
}

/// Violations of the settings of the gateway outside of its template.
#[must_use]
pub(crate) fn gateway_settings(instance: &FireboltInstance) -> Vec<Violation> {
    settings::gateway(instance)
}

/// Violations of the template of the gateway.
#[must_use]
pub(crate) fn gateway_template(instance: &FireboltInstance) -> Vec<Violation> {
    let template = instance.spec.gateway.template.as_ref();
    check(template, &GATEWAY, &credentials(instance))
}

fn check(template: Option<&PodTemplateSpec>, component: &'static TemplateKind, secrets: &[String]) -> Vec<Violation> {
    let templates = template.into_iter().map(|pod| Template {
        pod,
        component,
        secrets,
    });
    templates.flat_map(|template| template.violations()).collect()
}

/// The Secrets with credentials of the metadata database: that of the operator, and that of an external database.
fn credentials(instance: &FireboltInstance) -> Vec<String> {
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    std::iter::once(InstanceNames(name).postgres_credentials())
        .chain(external_credentials(instance))
        .collect()
}

/// The Secret with the credentials of an external database. An empty name counts as none.
fn external_credentials(instance: &FireboltInstance) -> Option<String> {
    let external = instance.spec.metadata.postgres.as_ref()?;
    Some(external.credentials_secret_ref.name.clone()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
