//! The health of the service over gRPC, which is the health of its database.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::time::sleep;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};

use super::database::{Database, DatabaseError, PAUSE, Target};

/// The server as a whole, in the protocol of health checks.
const WHOLE_SERVER: &str = "";

/// Serves until the address is lost. `database` is open, so health begins good.
pub(super) async fn serve(
    listen: SocketAddr,
    target: &Target,
    database: Database,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (reporter, service) = health_reporter();
    reporter.set_service_status(WHOLE_SERVER, ServingStatus::Serving).await;
    let listener = TcpListener::bind(listen).await?;
    tracing::info!("listening on {listen}");
    let server = Server::builder().add_service(service);
    tokio::select! {
        ended = server.serve_with_incoming(TcpIncoming::from(listener)) => Ok(ended?),
        () = follow(target, database, &reporter) => Ok(()),
    }
}

/// Keeps the reported health that of the database, for ever.
async fn follow(target: &Target, mut database: Database, reporter: &HealthReporter) {
    loop {
        let lost = failure_of(&database).await;
        tracing::warn!("the database is lost: {}", firebolt_process::error::chain(&lost));
        reporter
            .set_service_status(WHOLE_SERVER, ServingStatus::NotServing)
            .await;
        database = reopened(target).await;
        tracing::info!("the database is back");
        reporter.set_service_status(WHOLE_SERVER, ServingStatus::Serving).await;
    }
}

/// Waits until the database does not answer, and says how.
async fn failure_of(database: &Database) -> DatabaseError {
    loop {
        if let Err(error) = database.check().await {
            return error;
        }
        sleep(PAUSE).await;
    }
}

/// Waits until the database can be opened again. What stands in the way is logged when it changes.
async fn reopened(target: &Target) -> Database {
    let mut last = String::new();
    loop {
        match target.open().await {
            Ok(database) => return database,
            Err(error) => {
                let reason = firebolt_process::error::chain(&error);
                if reason != last {
                    tracing::warn!("cannot open the database: {reason}");
                    last = reason;
                }
            }
        }
        sleep(PAUSE).await;
    }
}
