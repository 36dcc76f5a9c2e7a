//! The end of a gateway pod: Envoy is emptied and then ended, as soon as that costs nobody a query.
//!
//! Envoy first says that it is not healthy, so that Services and load balancers send nothing new, and asks its clients to
//! close their connections. It goes on serving all the while. When all have left, it is told to end; the pod need not live
//! for the whole grace period. What takes too long is for the kubelet to end.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::desk::Desk;
use crate::envoy;

/// How long it takes until nobody sends anything new: endpoints have to reach every node.
const SPREAD: Duration = Duration::from_secs(5);
/// From then on a connection without a request does not count: its client does not mean to leave.
const IDLE_LEAVE: Duration = Duration::from_secs(10);
/// How long before the end those who wait are sent away. They need some time to hear of it.
const GOODBYE: Duration = Duration::from_secs(4);
/// How long before the end the agent leaves in any case, so that it is not killed.
const LEAVE: Duration = Duration::from_secs(1);
/// How often Envoy is asked.
const EVERY: Duration = Duration::from_millis(200);
/// How long Envoy may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of an answer is read.
const ANSWER: usize = 64 * 1024;

const CONNECTIONS: &str = "http.gateway.downstream_cx_active";
const REQUESTS: &str = "http.gateway.downstream_rq_active";
/// Both of them, as Envoy is asked for them.
const QUESTION: &str = "/stats?filter=%5Ehttp%5C.gateway%5C.downstream_(cx%7Crq)_active$";

/// What Envoy says of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// So many are there.
    Clients {
        /// Connections that are open.
        connections: u64,
        /// Requests that have begun and not ended.
        requests: u64,
    },
    /// It does not say.
    Unknown,
    /// It has ended already.
    Gone,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again in a moment.
    Wait,
    /// End Envoy, and leave.
    End,
    /// Leave: there is nothing left to do.
    Leave,
}

/// The next step, so long after the beginning.
#[must_use]
pub fn next(passed: Duration, seen: Seen) -> Step {
    match seen {
        _ if passed < SPREAD => Step::Wait,
        Seen::Clients { connections: 0, .. } => Step::End,
        Seen::Clients { requests: 0, .. } if passed >= IDLE_LEAVE => Step::End,
        Seen::Clients { .. } | Seen::Unknown => Step::Wait,
        Seen::Gone => Step::Leave,
    }
}

/// Comes back when the agent may end.
pub async fn drain(desk: &Desk, admin: SocketAddr, grace: Duration) {
    let began = Instant::now();
    desk.close((began + grace.saturating_sub(GOODBYE)).into_std());
    let limit = grace.saturating_sub(LEAVE);
    if timeout(limit, see_off(admin, began)).await.is_err() {
        let waiting = desk.occupancy().waiting;
        warn!(
            ?limit,
            waiting, "Envoy is not drained in time: the rest is left to the kubelet"
        );
    }
}

async fn see_off(admin: SocketAddr, began: Instant) {
    let mut failing = false;
    loop {
        if !failing && post(admin, "/healthcheck/fail").await {
            failing = true;
            info!("Envoy sends its clients away");
        }
        let seen = look(admin).await;
        let passed = began.elapsed();
        match next(passed, seen) {
            Step::Wait => {}
            Step::End => {
                if post(admin, "/quitquitquit").await {
                    info!(?passed, ?seen, "Envoy is drained and ends");
                    return;
                }
            }
            Step::Leave => {
                info!(?passed, "Envoy has ended");
                return;
            }
        }
        sleep(EVERY).await;
    }
}

async fn post(admin: SocketAddr, path: &str) -> bool {
    let asked = timeout(PATIENCE, envoy::send(admin, Method::POST, path, "localhost")).await;
    matches!(asked, Ok(Ok(exchange)) if exchange.response.status() == StatusCode::OK)
}

async fn look(admin: SocketAddr) -> Seen {
    let ask = async {
        let exchange = envoy::send(admin, Method::GET, QUESTION, "localhost").await?;
        exchange.text(ANSWER).await
    };
    match timeout(PATIENCE, ask).await {
        Ok(Ok(text)) => read(&text),
        Ok(Err(envoy::Error::Connect { source, .. })) if source.kind() == std::io::ErrorKind::ConnectionRefused => {
            Seen::Gone
        }
        Ok(Err(_)) | Err(_) => Seen::Unknown,
    }
}

fn read(text: &str) -> Seen {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
    };
    match (value(CONNECTIONS), value(REQUESTS)) {
        (Some(connections), Some(requests)) => Seen::Clients { connections, requests },
        (_, _) => Seen::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const fn clients(connections: u64, requests: u64) -> Seen {
        Seen::Clients { connections, requests }
    }

    #[rstest]
    #[case::others_may_not_know_yet(4_999, clients(0, 0), Step::Wait)]
    #[case::empty(5_000, clients(0, 0), Step::End)]
    #[case::a_request_runs(5_000, clients(1, 1), Step::Wait)]
    #[case::an_idle_client_may_still_leave(9_999, clients(1, 0), Step::Wait)]
    #[case::an_idle_client_has_had_its_time(10_000, clients(1, 0), Step::End)]
    #[case::a_long_request_goes_on(60_000, clients(1, 1), Step::Wait)]
    #[case::nobody_knows(60_000, Seen::Unknown, Step::Wait)]
    #[case::gone_too_early(4_999, Seen::Gone, Step::Wait)]
    #[case::gone(5_000, Seen::Gone, Step::Leave)]
    fn envoy_is_ended_when_it_costs_nobody_a_query(#[case] passed: u64, #[case] seen: Seen, #[case] step: Step) {
        assert_eq!(next(Duration::from_millis(passed), seen), step);
    }

    #[rstest]
    #[case(
        "http.gateway.downstream_cx_active: 3\nhttp.gateway.downstream_rq_active: 1\n",
        clients(3, 1)
    )]
    #[case("http.gateway.downstream_cx_active: 3\n", Seen::Unknown)]
    #[case(
        "http.gateway.downstream_cx_active: many\nhttp.gateway.downstream_rq_active: 1\n",
        Seen::Unknown
    )]
    #[case("", Seen::Unknown)]
    fn statistics_are_read_as_envoy_writes_them(#[case] text: &str, #[case] seen: Seen) {
        assert_eq!(read(text), seen);
    }
}
