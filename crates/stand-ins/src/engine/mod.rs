//! An engine that keeps the contract of the closed-source image at its edges.
//!
//! Queries come by HTTP on one port, health and metrics are on ports of their own. When the shutdown begins, readiness
//! turns to 503, new queries are turned away unexecuted with a 503 that carries [`DRAINED_HEADER`], and running ones
//! come to their end. Queries compute nothing: each one lasts as long as it asks for, and its answer says what arrived.
//! Which queries were executed is written down, so that a test can tell whether one was lost or executed twice.

mod endpoints;
mod query;
mod server;
mod settings;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

pub use query::{Answer, DURATION_HEADER, DURATION_PARAMETER, ID_HEADER, ID_PARAMETER};
pub use settings::{HEALTH_PORT, METRICS_PORT, QUERY_PORT, Settings};

use server::Server;
use state::State;

/// Marks the answer to a query that was turned away before it was executed.
pub const DRAINED_HEADER: &str = "x-firebolt-drained";
/// Where an engine says whether it takes queries, on the query port and on the health port.
pub const READY_PATH: &str = "/health/ready";
/// Where an engine says that it lives, on the health port.
pub const LIVE_PATH: &str = "/health/live";
/// Where an engine serves its gauges, on the metrics port.
pub const METRICS_PATH: &str = "/metrics";
/// Where this stand-in lists the identifiers of the queries it executed, on the metrics port. Real engines do not.
pub const EXECUTED_PATH: &str = "/stand-in/executed";

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
        let state = Arc::new(State::new(&settings.pod_name));
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

    /// The address that tells of health.
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

    /// How many queries were turned away because of the shutdown.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.state.rejected()
    }

    /// How many queries are being executed.
    #[must_use]
    pub fn running(&self) -> usize {
        self.state.running()
    }

    /// How often the query port was asked for its readiness.
    #[must_use]
    pub fn health_checks(&self) -> usize {
        self.state.health_checks()
    }

    /// Makes the engine say whether it is ready, without any effect on how it treats queries.
    pub fn set_ready(&self, ready: bool) {
        self.state.set_ready(ready);
    }

    /// Does what an engine does when it is told to end: it takes no more queries and finishes those it has.
    pub fn begin_shutdown(&self) {
        self.state.begin_shutdown();
    }

    /// Lets the queries that are being executed end now, however long they asked for.
    pub fn release(&self) {
        self.state.release();
    }

    /// Waits until no query is being executed.
    pub async fn finished(&self) {
        self.state.finished().await;
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

/// Runs an engine until the process is told to end and its queries are finished, or their time is up.
pub async fn run(settings: Settings) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let engine = Engine::start(&settings).await?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // Whatever is left when the time is up is cut off, as the end of the grace period would do.
    let _cut_off = timeout(settings.shutdown_limit.into(), engine.shut_down()).await;
    Ok(())
}
