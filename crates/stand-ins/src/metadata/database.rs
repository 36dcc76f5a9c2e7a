//! The database of the metadata service: one connection, and the account in it.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::{Configuration, Credentials};

/// How long after a failed attempt the next one follows.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// The one table. The names of the real service's tables are its own affair.
const TABLE: &str = "stand_in_account";

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// No connection.
    #[error("connect to PostgreSQL")]
    Connect(#[source] tokio_postgres::Error),
    /// The account could not be created.
    #[error("create the account in the schema {0}")]
    Provision(String, #[source] tokio_postgres::Error),
    /// A connection that was there is of no use any more.
    #[error("ask PostgreSQL for a sign of life")]
    Check(#[source] tokio_postgres::Error),
    /// No answer, neither good nor bad.
    #[error("wait for PostgreSQL: no answer within {} s", .0.as_secs())]
    Silent(Duration),
}

impl DatabaseError {
    /// Whether PostgreSQL responded with an error that retries do not fix, such as a wrong password.
    fn is_final(&self) -> bool {
        let answer = match self {
            Self::Connect(error) | Self::Provision(_, error) | Self::Check(error) => error.code(),
            Self::Silent(_) => None,
        };
        answer.is_some_and(is_final)
    }
}

/// Every code but those of the classes "connection", "out of resources" and "operator intervention", which a server
/// sends while it starts, stops or is full.
fn is_final(code: &SqlState) -> bool {
    !["08", "53", "57"].iter().any(|class| code.code().starts_with(class))
}

/// Where the account is to be, and how to get there.
pub(super) struct Target {
    connection: tokio_postgres::Config,
    host: String,
    port: u16,
    database: String,
    schema: String,
    account: String,
    limit: Duration,
}

impl Target {
    pub(super) fn new(configuration: &Configuration, credentials: &Credentials) -> Self {
        let settings = &configuration.postgres;
        let keepalive = settings.keepalive;
        let mut connection = tokio_postgres::Config::new();
        connection
            .host(&settings.host)
            .port(settings.port)
            .dbname(&settings.database)
            .user(&credentials.username)
            .password(&credentials.password)
            .application_name("metadata")
            .keepalives(keepalive.enabled)
            .keepalives_idle(keepalive.idle)
            .keepalives_interval(keepalive.interval)
            .keepalives_retries(keepalive.count)
            .connect_timeout(settings.connect_timeout);
        Self {
            connection,
            host: settings.host.clone(),
            port: settings.port,
            database: settings.database.clone(),
            schema: settings.schema.clone(),
            account: configuration.account.clone(),
            limit: settings.connect_timeout,
        }
    }

    /// Opens the database, trying again for as long as `patience` lasts unless the answer is final.
    pub(super) async fn open_within(&self, patience: Duration) -> Result<Database, DatabaseError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.open().await {
                Err(error) if !error.is_final() && Instant::now() < deadline => {
                    tracing::warn!(
                        "cannot open the database yet: {}",
                        firebolt_process::error::chain(&error)
                    );
                    sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Connects, and creates the account unless it is there.
    pub(super) async fn open(&self) -> Result<Database, DatabaseError> {
        let database = self.answered(self.connect()).await?;
        self.answered(self.provision(&database)).await?;
        Ok(database)
    }

    async fn connect(&self) -> Result<Database, DatabaseError> {
        let (client, connection) = self.connection.connect(NoTls).await.map_err(DatabaseError::Connect)?;
        let connection = tokio::spawn(async move {
            // How it ended is seen by the next who asks.
            let _ = connection.await;
        });
        let limit = self.limit;
        Ok(Database {
            client,
            connection,
            limit,
        })
    }

    async fn provision(&self, database: &Database) -> Result<(), DatabaseError> {
        let failed = |error| DatabaseError::Provision(self.schema.clone(), error);
        let table = format!("{}.{TABLE}", quoted(&self.schema));
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now())"
        );
        let insert = format!("INSERT INTO {table} (id) VALUES ($1) ON CONFLICT DO NOTHING");
        let client = &database.client;
        client.batch_execute(&create).await.map_err(failed)?;
        client.execute(&insert, &[&self.account]).await.map_err(failed)?;
        Ok(())
    }

    async fn answered<T>(&self, answer: impl Future<Output = Result<T, DatabaseError>>) -> Result<T, DatabaseError> {
        answer_within(self.limit, answer).await
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            host, port, database, ..
        } = self;
        write!(formatter, "{database} on {host}, port {port}")
    }
}

/// An open connection, closed when it is dropped.
pub(super) struct Database {
    client: Client,
    connection: JoinHandle<()>,
    limit: Duration,
}

impl Database {
    /// Fails unless the database answers.
    pub(super) async fn check(&self) -> Result<(), DatabaseError> {
        let answer = async {
            self.client
                .batch_execute("SELECT 1")
                .await
                .map_err(DatabaseError::Check)
        };
        answer_within(self.limit, answer).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

async fn answer_within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    timeout(limit, answer)
        .await
        .unwrap_or(Err(DatabaseError::Silent(limit)))
}

/// A name as SQL writes it, whatever it holds.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::configuration::tests::XML;
    use crate::metadata::tree::Format;
    use tokio_postgres::config::Host;

    #[test]
    fn the_connection_is_made_as_configured() {
        let configuration = Configuration::parse(Format::Xml, XML).expect("a configuration");
        let credentials = Credentials {
            username: "firebolt".to_owned(),
            password: "secret".to_owned(),
        };
        let target = Target::new(&configuration, &credentials);
        let connection = &target.connection;
        let host = "first-metadata-pg.analytics.svc.cluster.local";
        assert_eq!(connection.get_hosts(), [Host::Tcp(host.to_owned())]);
        assert_eq!(connection.get_ports(), [5432]);
        assert_eq!(connection.get_dbname(), Some("firebolt_metadata"));
        assert_eq!(connection.get_user(), Some("firebolt"));
        assert_eq!(connection.get_password(), Some("secret".as_bytes()));
        assert!(connection.get_keepalives());
        assert_eq!(connection.get_keepalives_idle(), Duration::from_mins(2));
        assert_eq!(connection.get_keepalives_interval(), Some(Duration::from_secs(30)));
        assert_eq!(connection.get_keepalives_retries(), Some(5));
        assert_eq!(connection.get_connect_timeout(), Some(&Duration::from_secs(5)));
        assert_eq!(target.to_string(), format!("firebolt_metadata on {host}, port 5432"));
    }

    #[test]
    fn only_an_answer_about_the_request_is_final() {
        for code in [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ] {
            assert!(is_final(&code), "{code:?}");
        }
        for code in [
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::CONNECTION_FAILURE,
        ] {
            assert!(!is_final(&code), "{code:?}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("public"), "\"public\"");
        assert_eq!(quoted("a\"; DROP"), "\"a\"\"; DROP\"");
    }
}
