//! Whether an engine can be reached, by the way that queries take.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use crate::envoy;
use crate::table::PROBE_TIMEOUT;

/// How many are under way at a time. Others wait for their turn, and fail if it does not come in time.
const AT_A_TIME: usize = 64;
/// The table waits a little longer, so that it hears of a probe that takes too long.
const TIMEOUT: Duration = PROBE_TIMEOUT.saturating_sub(Duration::from_millis(200));

/// Asks engines through Envoy.
#[derive(Debug)]
pub struct Prober {
    envoy: SocketAddr,
    suffix: String,
    turns: Semaphore,
}

impl Prober {
    /// Asks by this listener, for hosts with this ending.
    #[must_use]
    pub fn new(envoy: SocketAddr, suffix: &str) -> Self {
        Self {
            envoy,
            suffix: suffix.to_owned(),
            turns: Semaphore::new(AT_A_TIME),
        }
    }

    /// Whether the engine says that it is ready.
    pub async fn reaches(&self, engine: &str) -> bool {
        timeout(TIMEOUT, self.ask(engine)).await.unwrap_or(false)
    }

    async fn ask(&self, engine: &str) -> bool {
        let Ok(_turn) = self.turns.acquire().await else {
            return false;
        };
        let host = format!("{engine}{}", self.suffix);
        match envoy::send(self.envoy, Method::GET, "/health/ready", &host).await {
            Ok(exchange) => exchange.response.status() == StatusCode::OK,
            Err(error) => {
                debug!(%error, engine, "a probe got no answer");
                false
            }
        }
    }
}
