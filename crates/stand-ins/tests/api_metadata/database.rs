//! PostgreSQL itself: it runs as the pod says, keeps its data, and leaves nothing behind.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use stand_ins::postgres::{Container, Error, Postgres};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::service::{DATABASE, PASSWORD, USER, debian};

/// A PostgreSQL in a folder of its own. The server goes before its folder.
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_in(container()).expect("start PostgreSQL")
    }

    fn start_in(container: Container) -> Result<Self, Error> {
        let folder = tempfile::tempdir().expect("create a folder");
        let postgres = Postgres::start(&debian(), folder.path(), container)?;
        Ok(Self {
            postgres,
            _folder: folder,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.postgres.address()
    }

    /// A connection with the right credentials.
    pub(crate) async fn client(&self) -> Client {
        connect(self.address()).await.expect("connect to PostgreSQL")
    }
}

/// The container that the operator asks for: the data folder is one below the mount.
fn container() -> Container {
    let mut container = Container::new(USER, PASSWORD, DATABASE);
    let data = "/var/lib/postgresql/data/pgdata".to_owned();
    container.environment.insert("PGDATA".to_owned(), data);
    container
}

async fn connect(address: SocketAddr) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::Config::new()
        .host(address.ip().to_string())
        .port(address.port())
        .user(USER)
        .password(PASSWORD)
        .dbname(DATABASE)
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn value(client: &Client, query: &str) -> String {
    let row = client.query_one(query, &[]).await.expect("an answer");
    row.get(0)
}

/// The processes that were started to listen on `address`.
fn processes(address: SocketAddr) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").expect("list processes").flatten();
    let paths = entries.map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let command = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&format!("listen_addresses={}", address.ip()))
    };
    paths.filter(is_ours).collect()
}

#[tokio::test]
async fn postgresql_runs_with_the_environment_and_the_paths_of_the_container() {
    let server = Server::start();
    let client = server.client().await;
    let answers = [
        (
            "SELECT current_setting('data_directory')",
            "/var/lib/postgresql/data/pgdata",
        ),
        (
            "SELECT current_setting('unix_socket_directories')",
            "/var/run/postgresql",
        ),
        ("SELECT current_user::text", USER),
        (
            "SELECT usesuper::text FROM pg_user WHERE usename = current_user",
            "true",
        ),
        ("SELECT current_database()::text", DATABASE),
        (
            "SELECT string_agg(DISTINCT auth_method, ' ') FROM pg_hba_file_rules WHERE type = 'host'",
            "scram-sha-256",
        ),
    ];
    for (query, answer) in answers {
        assert_eq!(value(&client, query).await, answer, "{query}");
    }
}

#[tokio::test]
async fn data_outlives_the_server_and_the_server_does_not_outlive_its_owner() {
    let mut server = Server::start();
    let address = server.address();
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE kept (id int)")
        .await
        .expect("create a table");
    server.postgres.stop().expect("stop");
    assert!(connect(address).await.is_err(), "it is stopped");
    server.postgres.start_again().expect("start again");
    let client = server.client().await;
    let count = value(&client, "SELECT count(*)::text FROM kept").await;
    assert_eq!(count, "0");

    assert!(!processes(address).is_empty(), "it is found by its address");
    drop(server);
    assert!(processes(address).is_empty(), "nothing is left of it");
}

#[test]
fn a_folder_that_no_volume_is_mounted_at_cannot_be_written_to() {
    let mut container = container();
    container.mounts.retain(|mount| !mount.starts_with("/var/lib"));
    let error = Server::start_in(container)
        .err()
        .expect("no place for data")
        .to_string();
    assert!(error.contains("Read-only file system"), "{error}");
}

#[test]
fn a_user_that_the_image_does_not_know_cannot_start_it() {
    let mut container = container();
    container.user = 999;
    let error = Server::start_in(container).err().expect("no such user").to_string();
    assert!(error.contains("user does not exist"), "{error}");
}

#[test]
fn root_cannot_start_it() {
    let mut container = container();
    container.user = 0;
    let error = Server::start_in(container).err().expect("root is refused").to_string();
    assert!(error.contains("cannot be run as root"), "{error}");
}
