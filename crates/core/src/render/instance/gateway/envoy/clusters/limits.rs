//! How much of a gateway one engine may take up, and how much may wait for engines to wake.

use serde::Serialize;

use super::super::overload;

/// Queries of one engine that run at the same time through one gateway pod.
const RUNNING: u32 = 1024;
/// Queries of one engine that wait for one of those to end.
const WAITING: u32 = 1024;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CircuitBreakers {
    thresholds: Vec<Thresholds>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Thresholds {
    priority: &'static str,
    max_connections: u32,
    max_pending_requests: u32,
    max_requests: u32,
    max_retries: u32,
}

/// More requests than clients can have in flight without exceeding the agent's memory limit for held requests. The
/// agent has to refuse them, because it sends an error message.
const HELD: u32 = 1_000_000;

pub(super) fn per_engine() -> CircuitBreakers {
    CircuitBreakers {
        thresholds: vec![Thresholds {
            priority: "DEFAULT",
            // Each query has a connection of its own, so this is what limits the running ones.
            max_connections: RUNNING,
            max_pending_requests: WAITING,
            // Room for all of them: a connection is given to the next query before the last one is counted off.
            max_requests: RUNNING + WAITING,
            // Unlike the others, this one counts for all engines together, and a repeated query counts until it ends. It
            // must not be what makes queries of one engine fail while the pods of another are replaced.
            max_retries: overload::MAX_CLIENT_CONNECTIONS,
        }],
    }
}

/// Too high to be reached: a request over a limit here would be routed as if there were no agent.
pub(super) fn of_the_agent() -> CircuitBreakers {
    CircuitBreakers {
        thresholds: vec![Thresholds {
            priority: "DEFAULT",
            max_connections: HELD,
            max_pending_requests: HELD,
            max_requests: HELD,
            max_retries: 0,
        }],
    }
}
