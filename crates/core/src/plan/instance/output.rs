//! What a decision consists of. Everything here is data; `apply` in the operator carries it out.

use std::time::Duration;

use firebolt_api::FireboltInstanceStatus;
use strum::{Display, EnumIter, EnumString, IntoStaticStr};

use super::input::Input;
use crate::plan::Event;

/// What one pass does.
///
/// The caller performs the writes in order and stops at the first failure; every prefix is a safe place to die. Then it
/// writes the status, guarded by the resourceVersion that the instance was read with (or the one that a write of this
/// plan to the instance itself returned), and publishes the events.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// The next status; none if it would not change.
    pub status: Option<FireboltInstanceStatus>,
    /// What to tell people.
    pub events: Vec<Event>,
    /// When to look again, even if nothing is seen to change.
    pub look_again: Option<Duration>,
}

impl Plan {
    /// Whether the decision is too grave for a watch cache that may lag behind. Then the caller reads everything live
    /// and decides again; the second decision stands.
    ///
    /// Grave are deletions, and new credentials: made for a database that has others, they would lock everybody out. So is
    /// a change of the database, which engines that a cache does not show yet must not live through.
    #[must_use]
    pub fn needs_live_reads(&self, input: &Input) -> bool {
        let switches = input
            .observed
            .database
            .is_some_and(|used| used != input.wanted.database);
        let grave = self.writes.iter().any(|write| match write {
            Write::Create(Object::PostgresCredentials) | Write::Delete { .. } | Write::RemoveFinalizer => true,
            Write::Create(_) | Write::Apply(_) => switches,
            Write::AddFinalizer | Write::SetId(_) => false,
        });
        let failed = self
            .status
            .as_ref()
            .is_some_and(|status| status.phase == Some(firebolt_api::InstancePhase::Failed));
        grave || failed
    }
}

/// One write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Puts our finalizer on the instance.
    AddFinalizer,
    /// Takes our finalizer off the instance, which lets it go.
    RemoveFinalizer,
    /// Sets `spec.id`, once. The version guards it: an identity of a user wins.
    SetId(String),
    /// Creation of an object that was not there. The API server must refuse it if one is there after all.
    Create(Object),
    /// Server-side apply to an object of ours.
    Apply(Object),
    /// Deletion of an object, with its UID as precondition. One that is already gone is a success.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Its identity.
        uid: String,
    },
}

/// A part of an instance, in the order in which they are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter, Display)]
pub enum Component {
    /// PostgreSQL, if we run it.
    #[strum(to_string = "PostgreSQL")]
    Postgres,
    /// The metadata service.
    Metadata,
    /// The gateway.
    Gateway,
}

/// Where the metadata service keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Database {
    /// In the PostgreSQL that we run.
    Internal,
    /// In one that somebody else runs.
    External,
}

/// The kinds of objects that belong to an instance, as Kubernetes calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum Kind {
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
pub enum Object {
    /// The Secret with the credentials of our own PostgreSQL. Created once, never written again.
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
    /// The Service of the gateway. First of its objects, because the addresses that Kubernetes gives it tell which
    /// kinds of addresses the gateway has to listen on.
    GatewayService,
    /// The account that it runs under.
    GatewayAccount,
    /// What that account may do.
    GatewayRole,
    /// That it may.
    GatewayRoleBinding,
    /// The ConfigMap of the gateway.
    GatewayConfig,
    /// Its Deployment.
    GatewayDeployment,
    /// How many of its pods may be disturbed at once.
    GatewayBudget,
}

impl Object {
    /// The component that it belongs to.
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
    pub fn kind(self) -> Kind {
        match self {
            Self::PostgresCredentials => Kind::Secret,
            Self::PostgresSet => Kind::StatefulSet,
            Self::PostgresService | Self::MetadataService | Self::GatewayService => Kind::Service,
            Self::MetadataConfig | Self::GatewayConfig => Kind::ConfigMap,
            Self::MetadataDeployment | Self::GatewayDeployment => Kind::Deployment,
            Self::GatewayAccount => Kind::ServiceAccount,
            Self::GatewayRole => Kind::Role,
            Self::GatewayRoleBinding => Kind::RoleBinding,
            Self::GatewayBudget => Kind::PodDisruptionBudget,
        }
    }

    /// Its name in an instance of this name.
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
