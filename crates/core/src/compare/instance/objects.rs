//! The objects of an instance, by kind: as observed in the cluster, and as rendered.

use firebolt_api::key::Component;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::canonical;
use crate::compare::named;
use crate::plan::instance::InstanceObject;
use crate::render::instance::{self as render, Inputs, with_records};
use crate::render::with_template_hash;
use crate::resolve::instance::EffectiveInstance;

/// Everything in the cluster that has the name of an object of one instance, regardless of its owner; and its pods.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub struct InstanceObjects {
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

impl InstanceObjects {
    /// The metadata of an object of the instance of this name.
    #[must_use]
    pub fn metadata(&self, object: InstanceObject, instance: &str) -> Option<&ObjectMeta> {
        let name = object.name(instance);
        match object {
            // Secrets are kept apart, without their values.
            InstanceObject::PostgresCredentials => None,
            InstanceObject::PostgresSet => named(&self.stateful_sets, &name).map(|found| &found.metadata),
            InstanceObject::MetadataDeployment | InstanceObject::GatewayDeployment => {
                named(&self.deployments, &name).map(|found| &found.metadata)
            }
            InstanceObject::PostgresService | InstanceObject::MetadataService | InstanceObject::GatewayService => {
                named(&self.services, &name).map(|found| &found.metadata)
            }
            InstanceObject::MetadataConfig | InstanceObject::GatewayConfig => {
                named(&self.config_maps, &name).map(|found| &found.metadata)
            }
            InstanceObject::GatewayAccount => named(&self.service_accounts, &name).map(|found| &found.metadata),
            InstanceObject::GatewayRole => named(&self.roles, &name).map(|found| &found.metadata),
            InstanceObject::GatewayRoleBinding => named(&self.role_bindings, &name).map(|found| &found.metadata),
            InstanceObject::GatewayBudget => named(&self.disruption_budgets, &name).map(|found| &found.metadata),
        }
    }
}

/// A rendered object.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
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

/// Renders an object, if that can be done: the metadata service cannot be rendered without the hash of its credentials,
/// and credentials are not rendered but generated.
pub(super) fn rendered(
    object: InstanceObject,
    instance: &EffectiveInstance,
    credentials_hash: Option<&str>,
) -> Option<Rendered> {
    let inputs = |component, config: Option<ConfigMap>| Inputs {
        hash: render::inputs_hash(instance, component, credentials_hash),
        config: config.map(|config| data_hash(&config)),
    };
    Some(match object {
        InstanceObject::PostgresCredentials => return None,
        InstanceObject::PostgresSet => {
            let inputs = inputs(Component::Postgres, None);
            Rendered::StatefulSet(with_records(render::postgres_stateful_set(instance), inputs))
        }
        InstanceObject::PostgresService => Rendered::Service(with_template_hash(render::postgres_service(instance))),
        InstanceObject::MetadataConfig => {
            Rendered::ConfigMap(with_template_hash(render::metadata_config_map(instance)))
        }
        InstanceObject::MetadataDeployment => {
            let inputs = inputs(Component::Metadata, Some(render::metadata_config_map(instance)));
            let deployment = render::metadata_deployment(instance, credentials_hash?);
            Rendered::Deployment(with_records(deployment, inputs))
        }
        InstanceObject::MetadataService => Rendered::Service(with_template_hash(render::metadata_service(instance))),
        InstanceObject::GatewayService => Rendered::Service(with_template_hash(render::gateway_service(instance))),
        InstanceObject::GatewayAccount => {
            Rendered::ServiceAccount(with_template_hash(render::gateway_service_account(instance)))
        }
        InstanceObject::GatewayRole => Rendered::Role(with_template_hash(render::gateway_role(instance))),
        InstanceObject::GatewayRoleBinding => {
            Rendered::RoleBinding(with_template_hash(render::gateway_role_binding(instance)))
        }
        InstanceObject::GatewayConfig => Rendered::ConfigMap(with_template_hash(render::gateway_config_map(instance))),
        InstanceObject::GatewayDeployment => {
            let inputs = inputs(Component::Gateway, Some(render::gateway_config_map(instance)));
            Rendered::Deployment(with_records(render::gateway_deployment(instance), inputs))
        }
        InstanceObject::GatewayBudget => {
            Rendered::PodDisruptionBudget(with_template_hash(render::gateway_disruption_budget(instance)))
        }
    })
}

/// The hash of the data of a ConfigMap.
pub(super) fn data_hash(config: &ConfigMap) -> String {
    canonical::hash(&config.data)
}
