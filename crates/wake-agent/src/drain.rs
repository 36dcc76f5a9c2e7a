//! Termination of a gateway pod: Envoy is drained and then ended, as soon as no query is lost by that.
//!
//! Envoy first fails its health check, so that Services and load balancers send nothing new, and asks its clients to
//! close their connections. It keeps serving in the meantime. When all clients have left, it is asked to exit; the pod
//! does not use its whole grace period. If clients stay longer than that, the kubelet ends Envoy.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::envoy;
use crate::hold_queue::HoldQueue;

/// How long it takes until no new connections arrive: endpoints have to reach every node.
const ENDPOINT_PROPAGATION: Duration = Duration::from_secs(5);
/// After this time, connections without a request no longer count: their clients do not close them.
const IDLE_CONNECTIONS: Duration = Duration::from_secs(10);
/// How long before the end of the grace period held requests are answered. The responses take some time to arrive.
const HOLD_MARGIN: Duration = Duration::from_secs(4);
/// How long before the end of the grace period the agent exits in any case, so that it is not killed.
const EXIT_MARGIN: Duration = Duration::from_secs(1);
/// How often Envoy is sent for its clients.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long Envoy may take to respond.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum size of a response.
const RESPONSE_BYTES: usize = 64 * 1024;

const CONNECTIONS: &str = "http.gateway.downstream_cx_active";
const REQUESTS: &str = "http.gateway.downstream_rq_active";
/// The request for both.
const STATS_PATH: &str = "/stats?filter=%5Ehttp%5C.gateway%5C.downstream_(cx%7Crq)_active$";

/// The clients of Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// As counted by Envoy.
    Count {
        /// Open connections.
        connections: u64,
        /// Requests in flight.
        requests: u64,
    },
    /// Envoy does not respond.
    Unknown,
    /// Envoy has exited.
    EnvoyGone,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask Envoy again.
    Wait,
    /// End Envoy and exit.
    EndEnvoy,
    /// Exit: nothing is left to do.
    Exit,
}

/// The next action, this long after the signal to stop.
pub(crate) fn next(passed: Duration, clients: Clients) -> Action {
    match clients {
        _ if passed < ENDPOINT_PROPAGATION => Action::Wait,
        Clients::Count { connections: 0, .. } => Action::EndEnvoy,
        Clients::Count { requests: 0, .. } if passed >= IDLE_CONNECTIONS => Action::EndEnvoy,
        Clients::Count { .. } | Clients::Unknown => Action::Wait,
        Clients::EnvoyGone => Action::Exit,
    }
}

/// Returns when the agent may exit.
pub(crate) async fn drain(queue: &HoldQueue, admin: SocketAddr, grace: Duration) {
    let began = Instant::now();
    queue.close((began + grace.saturating_sub(HOLD_MARGIN)).into_std());
    let limit = grace.saturating_sub(EXIT_MARGIN);
    if timeout(limit, drain_envoy(admin, began)).await.is_err() {
        let waiting = queue.occupancy().waiting;
        warn!(
            ?limit,
            waiting,
            "timed out draining Envoy: the kubelet will kill it and interrupt the queries that are still running"
        );
    }
}

async fn drain_envoy(admin: SocketAddr, began: Instant) {
    let mut failing = false;
    loop {
        if !failing && post(admin, "/healthcheck/fail").await {
            failing = true;
            info!("draining Envoy, its /healthz now returns 503");
        }
        let clients = clients(admin).await;
        let passed = began.elapsed();
        match next(passed, clients) {
            Action::Wait => {}
            Action::EndEnvoy => {
                if post(admin, "/quitquitquit").await {
                    info!(?passed, ?clients, "drained Envoy, requested its exit");
                    return;
                }
            }
            Action::Exit => {
                info!(?passed, "Envoy has exited");
                return;
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn post(admin: SocketAddr, path: &str) -> bool {
    let sent = timeout(TIMEOUT, envoy::send(admin, Method::POST, path, "localhost")).await;
    matches!(sent, Ok(Ok(exchange)) if exchange.response.status() == StatusCode::OK)
}

async fn clients(admin: SocketAddr) -> Clients {
    let ask = async {
        let exchange = envoy::send(admin, Method::GET, STATS_PATH, "localhost").await?;
        exchange.text(RESPONSE_BYTES).await
    };
    match timeout(TIMEOUT, ask).await {
        Ok(Ok(text)) => read(&text),
        Ok(Err(envoy::Error::Connect { source, .. })) if source.kind() == std::io::ErrorKind::ConnectionRefused => {
            Clients::EnvoyGone
        }
        Ok(Err(_)) | Err(_) => Clients::Unknown,
    }
}

fn read(text: &str) -> Clients {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
    };
    match (value(CONNECTIONS), value(REQUESTS)) {
        (Some(connections), Some(requests)) => Clients::Count { connections, requests },
        (_, _) => Clients::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const fn count(connections: u64, requests: u64) -> Clients {
        Clients::Count { connections, requests }
    }

    #[rstest]
    #[case::endpoints_may_not_have_propagated(4_999, count(0, 0), Action::Wait)]
    #[case::empty(5_000, count(0, 0), Action::EndEnvoy)]
    #[case::a_request_runs(5_000, count(1, 1), Action::Wait)]
    #[case::an_idle_connection_still_counts(9_999, count(1, 0), Action::Wait)]
    #[case::an_idle_connection_no_longer_counts(10_000, count(1, 0), Action::EndEnvoy)]
    #[case::a_long_request_is_finished(60_000, count(1, 1), Action::Wait)]
    #[case::envoy_does_not_respond(60_000, Clients::Unknown, Action::Wait)]
    #[case::gone_too_early(4_999, Clients::EnvoyGone, Action::Wait)]
    #[case::gone(5_000, Clients::EnvoyGone, Action::Exit)]
    fn envoy_is_ended_when_no_query_is_lost(#[case] passed: u64, #[case] clients: Clients, #[case] action: Action) {
        assert_eq!(next(Duration::from_millis(passed), clients), action);
    }

    #[rstest]
    #[case(
        "http.gateway.downstream_cx_active: 3\nhttp.gateway.downstream_rq_active: 1\n",
        count(3, 1)
    )]
    #[case("http.gateway.downstream_cx_active: 3\n", Clients::Unknown)]
    #[case(
        "http.gateway.downstream_cx_active: many\nhttp.gateway.downstream_rq_active: 1\n",
        Clients::Unknown
    )]
    #[case("", Clients::Unknown)]
    fn counts_are_parsed_from_the_statistics_of_envoy(#[case] text: &str, #[case] clients: Clients) {
        assert_eq!(read(text), clients);
    }
}
