//! An engine that keeps the contract of the closed-source image at its edges.
//!
//! Queries come by HTTP on one port, health and metrics are on ports of their own. When the shutdown begins, readiness
//! turns to 503, new queries are rejected unexecuted with a 503 that carries [`DRAINED_HEADER`], and running ones
//! come to their end. Which queries were executed is recorded, and reported to a [ledger](crate::load::Ledger) if
//! there is one, so that a test can tell whether one was lost or executed twice.
//!
//! The statements that it understands are those that a person would type to see whether it works:
//!
//! | Statement | Answer |
//! |---|---|
//! | `SELECT 42` | a row with that number |
//! | `SELECT sleep(1.5)` | a row with a zero, after that many seconds |
//! | `INSERT INTO events VALUES ('id')` | no row; the query is recorded as `id` |
//!
//! Any other query computes nothing, and its [`Answer`] says what arrived. Each one can be given an identifier and a
//! length by header or parameter ([`ID_HEADER`], [`DURATION_HEADER`]), which win over those of the statement.

mod configuration;
mod endpoints;
mod process;
mod query;
mod settings;
mod state;
mod statement;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

pub use configuration::{Configuration, ConfigurationError};
pub use process::{Arguments, Error, run};
pub use query::{Answer, DURATION_HEADER, ID_HEADER};
pub use settings::{HEALTH_PORT, METRICS_PORT, QUERY_PORT, Settings};

use crate::server::Server;
use state::State;

/// Marks the response to a query that was rejected before it was executed.
pub const DRAINED_HEADER: &str = "x-firebolt-drained";
/// Where an engine says whether it takes queries, on the query port and on the health port.
pub const READY_PATH: &str = "/health/ready";
/// Where an engine says that it lives, on the health port.
pub(crate) const LIVE_PATH: &str = "/health/live";
/// Where an engine serves its gauges, on the metrics port.
pub const METRICS_PATH: &str = "/metrics";
/// Where this stand-in lists the identifiers of the queries it executed, on the metrics port. Real engines do not.
pub(crate) const EXECUTED_PATH: &str = "/stand-in/executed";
/// Where this stand-in accepts, on the metrics port, a POST of `broken`, after which its gauges respond with an error,
/// or of `ok`, which restores them. Real engines do not.
pub const METRICS_SWITCH_PATH: &str = "/stand-in/metrics";

/// A running engine. It ends, with all of its connections, when it is dropped.
#[derive(Debug)]
pub struct Engine {
    state: Arc<State>,
    queries: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
    servers: [Server; 3],
}

impl Engine {
    /// Starts an engine that is ready for queries.
    pub async fn start(settings: &Settings) -> io::Result<Self> {
        let listen = async |port| TcpListener::bind((settings.address, port)).await;
        let queries = listen(settings.query_port).await?;
        let health = listen(settings.health_port).await?;
        let metrics = listen(settings.metrics_port).await?;
        let state = Arc::new(State::new(settings));
        Ok(Self {
            queries: queries.local_addr()?,
            health: health.local_addr()?,
            metrics: metrics.local_addr()?,
            servers: [
                Server::start(queries, endpoints::queries(Arc::clone(&state))),
                Server::start(health, endpoints::health(Arc::clone(&state))),
                Server::start(metrics, endpoints::metrics(Arc::clone(&state))),
            ],
            state,
        })
    }

    /// The address that takes queries.
    #[must_use]
    pub fn query_address(&self) -> SocketAddr {
        self.queries
    }

    /// The address of the health checks.
    #[must_use]
    pub fn health_address(&self) -> SocketAddr {
        self.health
    }

    /// The address that serves metrics.
    #[must_use]
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// The identifiers of the queries whose execution has begun, in that order, repeated if they were.
    #[must_use]
    pub fn executed(&self) -> Vec<String> {
        self.state.executed()
    }

    /// How many queries were rejected because of the shutdown.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.state.rejected()
    }

    /// How many queries are being executed.
    #[must_use]
    pub fn running(&self) -> usize {
        self.state.running()
    }

    /// Waits until exactly this many queries are being executed.
    pub async fn until_running(&self, count: usize) {
        self.state.until_running(count).await;
    }

    /// Makes the engine say whether it is ready, without any effect on how it treats queries.
    pub fn set_ready(&self, ready: bool) {
        self.state.set_ready(ready);
    }

    /// Does what an engine does when it is asked to end: it takes no more queries and finishes those it has.
    pub fn begin_shutdown(&self) {
        self.state.begin_shutdown();
    }

    /// Lets the queries that are being executed end now, however long they asked for.
    pub fn release(&self) {
        self.state.release();
    }

    /// Waits until no query is being executed.
    pub async fn finished(&self) {
        self.until_running(0).await;
    }

    /// Ends the engine in good order: it takes no more queries, finishes those it has, and then frees its ports.
    pub async fn shut_down(self) {
        self.begin_shutdown();
        self.finished().await;
        for server in self.servers {
            server.close().await;
        }
    }

    /// Ends the engine at once and frees its ports, as a kill does.
    pub async fn kill(self) {
        for server in self.servers {
            server.abort().await;
        }
    }
}
