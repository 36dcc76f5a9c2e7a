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
        let asked = tokio::spawn(async move { prober.reaches("analytics").await });
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 1024];
        let length = socket.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        assert!(head.starts_with("GET /health/ready HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("host: analytics-service.sales.svc:3473\r\n"), "{head}");
        socket.write_all(answer.as_bytes()).await.unwrap();
        drop(socket);
        assert_eq!(asked.await.unwrap(), reached);
    }

    #[tokio::test]
    async fn nobody_listening_is_not_reached() {
        let (prober, listener) = prober().await;
        drop(listener);
        assert!(!prober.reaches("a").await);
    }

    #[tokio::test]
    async fn no_more_than_so_many_are_under_way_and_those_without_an_answer_end_in_time() {
        let (prober, listener) = prober().await;
        let mut under_way = JoinSet::new();
        for _ in 0..=AT_A_TIME {
            let prober = Arc::clone(&prober);
            under_way.spawn(async move { prober.reaches("a").await });
        }
        let mut silent = Vec::new();
        for _ in 0..AT_A_TIME {
            silent.push(listener.accept().await.unwrap());
        }
        assert_eq!(prober.turns.available_permits(), 0);
        let more = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(more.is_err(), "one too many");
        let reached = under_way.join_all().await;
        assert!(reached.iter().all(|reached| !reached));
    }
}
