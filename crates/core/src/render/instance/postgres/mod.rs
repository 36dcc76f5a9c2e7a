//! The PostgreSQL server that the operator runs for an instance without another.

mod container;
mod credentials;
mod service;
mod stateful_set;

use firebolt_api::name::InstanceNames;

pub use credentials::postgres_credentials;
pub use service::postgres_service;
pub use stateful_set::postgres_stateful_set;

/// The database user, as which the metadata service connects.
pub const POSTGRES_USER: &str = "firebolt";
/// The database of the metadata service.
pub(crate) const POSTGRES_DATABASE: &str = "firebolt_metadata";
/// The claim template of the StatefulSet, which is also the name of the volume.
pub(crate) const POSTGRES_CLAIM: &str = "data";

/// The port of the server.
pub(super) const PORT: u16 = 5432;
const PORT_NAME: &str = "tcp-postgresql";

/// The claim that holds the data of the server of the instance of this name: the one of its only pod.
#[must_use]
pub fn postgres_claim_name(instance: &str) -> String {
    format!("{POSTGRES_CLAIM}-{}-0", InstanceNames(instance).postgres())
}
