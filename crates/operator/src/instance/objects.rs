//! The objects of an instance, by kind: as they are found in the cluster, and as they are rendered.

use firebolt_core::plan::instance::Object;
use firebolt_core::render::{instance as render, stamped};
use firebolt_core::resolve::instance::EffectiveInstance;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Resource, ResourceExt};

use crate::write::version_in;

/// Everything in the cluster that has the name of an object of one instance, whoever made it; and its pods.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub stateful_sets: Vec<StatefulSet>,
    pub deployments: Vec<Deployment>,
    pub services: Vec<Service>,
    pub config_maps: Vec<ConfigMap>,
    pub service_accounts: Vec<ServiceAccount>,
    pub roles: Vec<Role>,
    pub role_bindings: Vec<RoleBinding>,
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    pub pods: Vec<Pod>,
}

impl Objects {
    /// The version of the object of this kind and name.
    pub fn version(&self, kind: &str, name: &str) -> Option<String> {
        version_in(&self.stateful_sets, kind, name)
            .or_else(|| version_in(&self.deployments, kind, name))
            .or_else(|| version_in(&self.services, kind, name))
            .or_else(|| version_in(&self.config_maps, kind, name))
            .or_else(|| version_in(&self.service_accounts, kind, name))
            .or_else(|| version_in(&self.roles, kind, name))
            .or_else(|| version_in(&self.role_bindings, kind, name))
            .or_else(|| version_in(&self.disruption_budgets, kind, name))
    }
}

/// The one of this name.
pub fn named<'a, K: Resource>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects.iter().find(|object| object.name_any() == name)
}

/// A rendered object.
pub enum Rendered {
    StatefulSet(StatefulSet),
    Deployment(Deployment),
    Service(Service),
    ConfigMap(ConfigMap),
    ServiceAccount(ServiceAccount),
    Role(Role),
    RoleBinding(RoleBinding),
    PodDisruptionBudget(PodDisruptionBudget),
}

/// Renders an object, if that can be done: the metadata service cannot be rendered without the hash of its
/// credentials, and credentials are not rendered but made.
pub fn rendered(object: Object, instance: &EffectiveInstance, credentials_hash: Option<&str>) -> Option<Rendered> {
    Some(match object {
        Object::PostgresCredentials => return None,
        Object::PostgresSet => Rendered::StatefulSet(stamped(render::postgres_stateful_set(instance))),
        Object::PostgresService => Rendered::Service(stamped(render::postgres_service(instance))),
        Object::MetadataConfig => Rendered::ConfigMap(stamped(render::metadata_config_map(instance))),
        Object::MetadataDeployment => {
            Rendered::Deployment(stamped(render::metadata_deployment(instance, credentials_hash?)))
        }
        Object::MetadataService => Rendered::Service(stamped(render::metadata_service(instance))),
        Object::GatewayService => Rendered::Service(stamped(render::gateway_service(instance))),
        Object::GatewayAccount => Rendered::ServiceAccount(stamped(render::gateway_service_account(instance))),
        Object::GatewayRole => Rendered::Role(stamped(render::gateway_role(instance))),
        Object::GatewayRoleBinding => Rendered::RoleBinding(stamped(render::gateway_role_binding(instance))),
        Object::GatewayConfig => Rendered::ConfigMap(stamped(render::gateway_config_map(instance))),
        Object::GatewayDeployment => Rendered::Deployment(stamped(render::gateway_deployment(instance))),
        Object::GatewayBudget => Rendered::PodDisruptionBudget(stamped(render::gateway_disruption_budget(instance))),
    })
}
