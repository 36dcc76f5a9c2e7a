//! The objects of an instance, built from an [`EffectiveInstance`]: a folder for each component, a file for each object.

pub mod gateway;
mod inputs_hash;
mod metadata;
mod pod;
mod postgres;
mod record;

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::{ContainerPort, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::resolve::instance::{EffectiveInstance, component_labels};

pub use gateway::{
    gateway_config_map, gateway_deployment, gateway_disruption_budget, gateway_role, gateway_role_binding,
    gateway_service, gateway_service_account,
};
pub(crate) use inputs_hash::{inputs_hash, is_comparable};
pub(crate) use metadata::CREDENTIALS_VOLUME;
pub(crate) use metadata::{METADATA_VOLUMES, is_plain};
pub use metadata::{metadata_config_map, metadata_deployment, metadata_service};
pub(crate) use postgres::POSTGRES_DATABASE;
pub use postgres::{POSTGRES_USER, postgres_claim_name, postgres_credentials, postgres_service, postgres_stateful_set};
pub(crate) use record::{Inputs, Workload, recorded, recorded_pods, with_records, without_records};

/// The key of the user name in a credentials Secret.
pub(crate) const USERNAME_KEY: &str = "username";
/// The key of the password in a credentials Secret.
pub(crate) const PASSWORD_KEY: &str = "password";
/// The key of the database name in the credentials Secret that the operator creates.
pub(crate) const DATABASE_KEY: &str = "database";

/// The metadata of every object of a component.
fn object_meta(instance: &EffectiveInstance, name: String, component: Component) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(instance.namespace.clone()),
        labels: Some(component_labels(&instance.name, component)),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION),
            kind: "FireboltInstance".to_owned(),
            name: instance.name.clone(),
            uid: instance.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The selector of the pods of a component.
fn selector(instance: &EffectiveInstance, component: Component) -> LabelSelector {
    LabelSelector {
        match_labels: Some(component_labels(&instance.name, component)),
        match_expressions: None,
    }
}

/// The only port of a Service, and the target port of its pods.
fn service_port(name: &str, port: u16, target: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: port.into(),
        target_port: Some(IntOrString::Int(target.into())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

/// A port of a container.
fn container_port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

#[cfg(test)]
mod tests;
