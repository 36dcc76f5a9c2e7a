//! The metadata service.

mod config;
mod config_map;
mod container;
mod deployment;
mod service;

use firebolt_api::ConfigFormat;
use firebolt_api::key::Annotation;

use crate::resolve::instance::{EffectiveInstance, Postgres};

pub(crate) use config::is_plain;
pub use config_map::metadata_config_map;
pub use deployment::metadata_deployment;
pub use service::metadata_service;

/// Names of the operator's volumes. A template with such a volume is rejected.
pub(crate) const METADATA_VOLUMES: [&str; 3] = [CONFIG_VOLUME, CREDENTIALS_VOLUME, TEMPORARY_VOLUME];
/// The volume with the credentials of the database, which only the container of the service can mount.
pub(crate) const CREDENTIALS_VOLUME: &str = "postgres-creds";
const CONFIG_VOLUME: &str = "config";
const TEMPORARY_VOLUME: &str = "tmp";

const PORT_NAME: &str = "grpc";

/// The only key of the ConfigMap, which is also the name of the file.
fn config_file(format: ConfigFormat) -> &'static str {
    match format {
        ConfigFormat::Xml => "config.xml",
        ConfigFormat::Yaml => "config.yaml",
    }
}

/// Records the database that the service was set up with: another one would be empty.
fn database(instance: &EffectiveInstance) -> (Annotation, String) {
    let kind = match instance.postgres {
        Postgres::Internal { .. } => "internal",
        Postgres::External(_) => "external",
    };
    (Annotation::Postgres, kind.to_owned())
}
