//! Start, serve and stop, with neither a cluster nor Envoy.

use std::net::TcpListener;

use crate::agent::Agent;

#[test]
fn without_a_cluster_queries_are_routed_and_the_cause_is_logged_once() {
    let agent = Agent::start(&[]);
    let why = agent.logs("cannot list fireboltengines");
    let message = why["message"].as_str().unwrap();
    assert!(message.contains("namespace sales"), "{message}");
    assert!(
        message.contains("Mount the token of a service account, or set KUBECONFIG."),
        "{message}"
    );
    let answer = agent.get("/hold", "x-firebolt-engine: analytics\r\nx-firebolt-bytes: 100\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("x-firebolt-wake: fail_open\r\n"), "{answer:?}");
    // Until the next attempt.
    let failed = "firebolt_gateway_wake_listings_total{outcome=\"failed\"} ";
    let tries = |metrics: &str| {
        let count = metrics.lines().find_map(|line| line.strip_prefix(failed)?.parse().ok());
        count.unwrap_or(0)
    };
    while tries(&agent.get("/stats/prometheus", "").body) < 2 {
        std::thread::yield_now();
    }
    agent.signal();
    // No line in between.
    assert_eq!(agent.next()["message"], "received SIGTERM, stopping");
}

#[test]
fn health_and_metrics_are_served_without_envoy() {
    let agent = Agent::start(&[]);
    let answer = agent.get("/healthz", "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    let answer = agent.get("/stats/prometheus", "");
    assert!(
        answer
            .head
            .contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer:?}"
    );
    assert!(answer.body.contains("firebolt_gateway_wake_synced 0\n"), "{answer:?}");
}

#[test]
fn the_first_signal_ends_the_agent_in_time_with_code_0() {
    let mut agent = Agent::start(&["--grace-period=2s"]);
    agent.signal();
    agent.logs("received SIGTERM, stopping");
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn it_serves_while_it_stops_and_a_second_signal_ends_it_immediately() {
    // An Envoy that accepts connections and does not respond.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = format!("--envoy-admin={}", silent.local_addr().unwrap());
    let mut agent = Agent::start(&["--grace-period=1h", &admin]);
    agent.signal();
    agent.logs("received SIGTERM, stopping");
    let answer = agent.get("/hold", "x-firebolt-engine: analytics\r\n");
    assert!(answer.head.contains("x-firebolt-wake: fail_open\r\n"), "{answer:?}");
    agent.signal();
    agent.logs("received a second signal");
    assert_eq!(agent.end().code(), Some(1));
}
