//! The metadata service as seen from outside: its configuration, its database, its health over gRPC.
//!
//! # Contract
//!
//! - The configuration is refused unless it is complete, with every value in its range and nothing besides.
//! - It tries to reach the database for [`PATIENCE`], creates the account that the configuration names unless it is
//!   there, and only then listens.
//! - The health of the whole server (the service with the empty name) is that of the database, for as long as it runs.
//!
//! What the real service does for engines is left out.

mod configuration;
mod credentials;
mod database;
mod health;
mod tree;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

pub use configuration::{Configuration, ConfigurationError, GarbageCollection, Keepalive, LogLevel, PostgresSettings};
pub use credentials::{Credentials, CredentialsError};
pub use database::DatabaseError;
pub use tree::TreeError;

/// Names the file that holds the user name for the database.
pub(crate) const USERNAME_VARIABLE: &str = "POSTGRES_USERNAME_FILE";
/// Names the file that holds the password for the database.
pub(crate) const PASSWORD_VARIABLE: &str = "POSTGRES_PASSWORD_FILE";
/// How long the database may stay out of reach at the start.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Why the service ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The container lacks a variable that names a credential file.
    #[error("find the credentials: the environment variable {0} is not set")]
    NoVariable(&'static str),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A credential file cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The database refuses, or was out of reach for too long.
    #[error("open the database {0}")]
    Database(String, #[source] DatabaseError),
    /// The address to listen on is not available, or was lost.
    #[error("serve gRPC on {0}")]
    Serve(std::net::SocketAddr, #[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration file.
    pub config: PathBuf,
    /// The file that holds the user name for the database.
    pub(crate) username_file: PathBuf,
    /// The file that holds the password for the database.
    pub(crate) password_file: PathBuf,
    /// How long the database may stay out of reach at the start.
    pub patience: Duration,
}

impl Settings {
    /// Takes the credential files from the environment, as the container names them.
    pub fn from_environment(config: PathBuf, patience: Duration) -> Result<Self, Error> {
        let path = |name| env::var_os(name).map(PathBuf::from).ok_or(Error::NoVariable(name));
        Ok(Self {
            config,
            username_file: path(USERNAME_VARIABLE)?,
            password_file: path(PASSWORD_VARIABLE)?,
            patience,
        })
    }
}

/// Runs the service until it fails. Dropping the future stops it.
pub async fn run(settings: &Settings) -> Result<(), Error> {
    let configuration = Configuration::read(&settings.config)?;
    let credentials = Credentials::read(&settings.username_file, &settings.password_file)?;
    let target = database::Target::new(&configuration, &credentials);
    let database = target
        .open_within(settings.patience)
        .await
        .map_err(|error| Error::Database(target.to_string(), error))?;
    tracing::info!("the account {} is in the database {target}", configuration.account);
    health::serve(configuration.listen, &target, database)
        .await
        .map_err(|error| Error::Serve(configuration.listen, error))
}
