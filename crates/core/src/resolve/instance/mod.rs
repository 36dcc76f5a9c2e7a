//! Merges an instance and the operator's defaults into one [`EffectiveInstance`].

mod credentials;
mod gateway;
mod metadata;
mod template;

use std::collections::BTreeMap;

use firebolt_api::key::{Component, Label};
use firebolt_api::name::InstanceNames;
use firebolt_api::{ExternalPostgres, FireboltInstance};

use super::Defaults;

pub use credentials::credentials_hash;
pub(crate) use gateway::ENVOY_CONTAINER;
pub use gateway::Gateway;
pub(crate) use metadata::METADATA_CONTAINER;
pub(crate) use metadata::METADATA_USER;
pub use metadata::Metadata;

/// The port of the metadata service.
pub(crate) const METADATA_PORT: u16 = 7000;

/// The effective settings of an instance, completely resolved and merged. Rendering objects from it cannot fail.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveInstance {
    /// The namespace of the instance and of everything that it owns.
    pub namespace: String,
    /// The name of the instance.
    pub name: String,
    /// The UID of the object, for owner references.
    pub uid: String,
    /// The account of the instance in its metadata service.
    pub id: String,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
    /// The database of the metadata service.
    pub postgres: Postgres,
    /// The metadata service.
    pub metadata: Metadata,
    /// The gateway.
    pub gateway: Gateway,
}

/// The database of the metadata service.
#[derive(Clone, Debug, PartialEq)]
pub enum Postgres {
    /// A PostgreSQL server that the operator runs.
    Internal {
        /// Its image.
        image: String,
        /// Secrets for pulling the image.
        image_pull_secrets: Vec<String>,
    },
    /// An external server.
    External(ExternalPostgres),
}

/// Merges the instance with the operator's defaults. With `ipv6`, the pods of the cluster have IPv6 addresses.
#[must_use]
pub fn resolve(instance: &FireboltInstance, defaults: &Defaults, ipv6: bool) -> EffectiveInstance {
    let spec = &instance.spec;
    let name = instance.metadata.name.clone().unwrap_or_default();
    EffectiveInstance {
        namespace: instance.metadata.namespace.clone().unwrap_or_default(),
        uid: instance.metadata.uid.clone().unwrap_or_default(),
        id: spec.id.clone().unwrap_or_default(),
        cluster_domain: defaults.cluster_domain.clone(),
        postgres: postgres(spec.metadata.postgres.as_ref(), defaults),
        metadata: metadata::resolve(&spec.metadata, defaults),
        gateway: gateway::resolve(&name, &spec.gateway, defaults, ipv6),
        name,
    }
}

fn postgres(external: Option<&ExternalPostgres>, defaults: &Defaults) -> Postgres {
    match external {
        Some(external) => Postgres::External(external.clone()),
        None => Postgres::Internal {
            image: defaults.postgres_image.clone(),
            image_pull_secrets: defaults.image_pull_secrets.clone(),
        },
    }
}

impl EffectiveInstance {
    /// The endpoint of the metadata service, as host and port.
    #[must_use]
    pub(crate) fn metadata_endpoint(&self) -> String {
        format!("{}:{METADATA_PORT}", self.service_host(&self.names().metadata()))
    }

    /// The endpoint of the gateway, as a host.
    #[must_use]
    pub(crate) fn gateway_endpoint(&self) -> String {
        self.service_host(&self.names().gateway())
    }

    /// The Secret that the metadata service reads: its keys `username` and `password`.
    #[must_use]
    pub(crate) fn credentials_secret(&self) -> String {
        match &self.postgres {
            Postgres::Internal { .. } => self.names().postgres_credentials(),
            Postgres::External(external) => external.credentials_secret_ref.name.clone(),
        }
    }

    /// The names of the objects of the instance.
    pub(crate) fn names(&self) -> InstanceNames<'_> {
        InstanceNames(&self.name)
    }

    /// The DNS name of a Service of the instance.
    pub(crate) fn service_host(&self, service: &str) -> String {
        format!("{service}.{}.svc.{}", self.namespace, self.cluster_domain)
    }
}

/// The Secret with the credentials of the metadata database of an instance.
#[must_use]
pub fn credentials_secret(instance: &FireboltInstance) -> String {
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    match &instance.spec.metadata.postgres {
        Some(external) => external.credentials_secret_ref.name.clone(),
        None => InstanceNames(name).postgres_credentials(),
    }
}

/// The labels of the objects of a component, which are also the selector of its pods.
pub(crate) fn component_labels(instance: &str, component: Component) -> BTreeMap<String, String> {
    BTreeMap::from([
        (Label::Instance.key().to_owned(), instance.to_owned()),
        (Label::Component.key().to_owned(), component.key().to_owned()),
    ])
}

#[cfg(test)]
mod tests;
