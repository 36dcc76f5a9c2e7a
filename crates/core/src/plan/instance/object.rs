//! The components of an instance and their objects.

use strum::{Display, EnumIter};

/// A component of an instance, in the order in which they are provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter, Display)]
pub enum Component {
    /// PostgreSQL, if the operator runs it.
    #[strum(to_string = "PostgreSQL")]
    Postgres,
    /// The metadata service.
    #[strum(to_string = "the metadata service")]
    Metadata,
    /// The gateway.
    #[strum(to_string = "the gateway")]
    Gateway,
}

/// The kinds of the objects of an instance, as Kubernetes calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum InstanceObjectKind {
    ConfigMap,
    Deployment,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
}

/// The objects of an instance, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter)]
pub enum InstanceObject {
    /// The Secret with the credentials of the PostgreSQL that the operator runs. Created once, never updated.
    PostgresCredentials,
    /// Its StatefulSet.
    PostgresSet,
    /// Its headless Service.
    PostgresService,
    /// The ConfigMap of the metadata service.
    MetadataConfig,
    /// Its Deployment.
    MetadataDeployment,
    /// Its Service.
    MetadataService,
    /// The Service of the gateway. Written first, because the IP families that Kubernetes assigns to it determine which
    /// addresses the gateway has to listen on.
    GatewayService,
    /// The ServiceAccount of the gateway pods.
    GatewayAccount,
    /// The permissions of that ServiceAccount.
    GatewayRole,
    /// The binding of the two.
    GatewayRoleBinding,
    /// The ConfigMap of the gateway.
    GatewayConfig,
    /// Its Deployment.
    GatewayDeployment,
    /// The PodDisruptionBudget of its pods.
    GatewayBudget,
}

impl InstanceObject {
    /// Its component.
    #[must_use]
    pub fn component(self) -> Component {
        match self {
            Self::PostgresCredentials | Self::PostgresSet | Self::PostgresService => Component::Postgres,
            Self::MetadataConfig | Self::MetadataDeployment | Self::MetadataService => Component::Metadata,
            Self::GatewayService
            | Self::GatewayAccount
            | Self::GatewayRole
            | Self::GatewayRoleBinding
            | Self::GatewayConfig
            | Self::GatewayDeployment
            | Self::GatewayBudget => Component::Gateway,
        }
    }

    /// Its kind.
    #[must_use]
    pub(crate) fn kind(self) -> InstanceObjectKind {
        match self {
            Self::PostgresCredentials => InstanceObjectKind::Secret,
            Self::PostgresSet => InstanceObjectKind::StatefulSet,
            Self::PostgresService | Self::MetadataService | Self::GatewayService => InstanceObjectKind::Service,
            Self::MetadataConfig | Self::GatewayConfig => InstanceObjectKind::ConfigMap,
            Self::MetadataDeployment | Self::GatewayDeployment => InstanceObjectKind::Deployment,
            Self::GatewayAccount => InstanceObjectKind::ServiceAccount,
            Self::GatewayRole => InstanceObjectKind::Role,
            Self::GatewayRoleBinding => InstanceObjectKind::RoleBinding,
            Self::GatewayBudget => InstanceObjectKind::PodDisruptionBudget,
        }
    }

    /// Its name in the instance with this name.
    #[must_use]
    pub fn name(self, instance: &str) -> String {
        let names = firebolt_api::name::InstanceNames(instance);
        match self {
            Self::PostgresCredentials => names.postgres_credentials(),
            Self::PostgresSet | Self::PostgresService => names.postgres(),
            Self::MetadataConfig => names.metadata_config(),
            Self::MetadataDeployment | Self::MetadataService => names.metadata(),
            Self::GatewayConfig => names.gateway_config(),
            Self::GatewayService | Self::GatewayAccount | Self::GatewayDeployment | Self::GatewayBudget => {
                names.gateway()
            }
            Self::GatewayRole | Self::GatewayRoleBinding => names.gateway_wake(),
        }
    }
}
