//! Probes of engines, on the route that queries take.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use crate::envoy;
use crate::hold::PROBE_TIMEOUT;

/// The maximum number of concurrent probes. Others wait, and fail if they do not start in time.
const CONCURRENT: usize = 64;
/// The state machine waits a little longer, so that it receives the result of a probe that times out.
const TIMEOUT: Duration = PROBE_TIMEOUT.saturating_sub(Duration::from_millis(200));

/// Probes engines through Envoy.
#[derive(Debug)]
pub(crate) struct Prober {
    envoy: SocketAddr,
    suffix: String,
    slots: Semaphore,
}

impl Prober {
    /// Sends probes to this listener of Envoy, for hosts with this suffix.
    pub(crate) fn new(envoy: SocketAddr, suffix: &str) -> Self {
        Self {
            envoy,
            suffix: suffix.to_owned(),
            slots: Semaphore::new(CONCURRENT),
        }
    }

    /// Whether the engine responds that it is ready.
    pub(crate) async fn reaches(&self, engine: &str) -> bool {
        timeout(TIMEOUT, self.probe(engine)).await.unwrap_or(false)
    }

    async fn probe(&self, engine: &str) -> bool {
        let Ok(_slot) = self.slots.acquire().await else {
            return false;
        };
        let host = format!("{engine}{}", self.suffix);
        match envoy::send(self.envoy, Method::GET, "/health/ready", &host).await {
            Ok(exchange) => exchange.response.status() == StatusCode::OK,
            Err(error) => {
                debug!(%error, "the probe failed");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    async fn prober() -> (Arc<Prober>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Arc::new(Prober::new(address, "-service.sales.svc:3473")), listener)
    }

    #[rstest]
    #[case("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true)]
    #[case("HTTP/1.1 204 No Content\r\n\r\n", false)]
    #[case("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false)]
    #[case("what?", false)]
    #[case("", false)]
    #[tokio::test]
    async fn only_a_200_counts(#[case] answer: &'static str, #[case] reached: bool) {
        let (prober, listener) = prober().await;
        let probed = tokio::spawn(async move { prober.reaches("analytics").await });
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 1024];
        let length = socket.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        assert!(head.starts_with("GET /health/ready HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("host: analytics-service.sales.svc:3473\r\n"), "{head}");
        socket.write_all(answer.as_bytes()).await.unwrap();
        drop(socket);
        assert_eq!(probed.await.unwrap(), reached);
    }

    #[tokio::test]
    async fn an_engine_without_a_listener_is_not_reached() {
        let (prober, listener) = prober().await;
        drop(listener);
        assert!(!prober.reaches("a").await);
    }

    #[tokio::test]
    async fn the_number_of_concurrent_probes_is_limited_and_silent_ones_time_out() {
        let (prober, listener) = prober().await;
        let mut running = JoinSet::new();
        for _ in 0..=CONCURRENT {
            let prober = Arc::clone(&prober);
            running.spawn(async move { prober.reaches("a").await });
        }
        let mut silent = Vec::new();
        for _ in 0..CONCURRENT {
            silent.push(listener.accept().await.unwrap());
        }
        assert_eq!(prober.slots.available_permits(), 0);
        let more = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(more.is_err(), "the limit is exceeded");
        let reached = running.join_all().await;
        assert!(reached.iter().all(|reached| !reached));
    }
}
