//! Start, serve and stop, with neither a cluster nor Envoy.

use std::net::TcpListener;

use crate::agent::Agent;

#[test]
fn without_a_cluster_everything_passes_and_the_log_says_why_once() {
    let agent = Agent::start(&[]);
    let why = agent.logs("cannot list fireboltengines");
    let message = why["message"].as_str().unwrap();
    assert!(message.contains("namespace sales"), "{message}");
    assert!(
        message.contains("Mount the token of a service account, or set KUBECONFIG."),
        "{message}"
    );
    let answer = agent.get("/hold", "x-firebolt-engine: analytics\r\nx-firebolt-bytes: 100\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("x-firebolt-wake: blind\r\n"), "{answer}");
    // Until it has tried again.
    let failed = "firebolt_gateway_wake_listings_total{outcome=\"failed\"} ";
    let tries = |metrics: &str| {
        let count = metrics.lines().find_map(|line| line.strip_prefix(failed)?.parse().ok());
        count.unwrap_or(0)
    };
    while tries(&agent.get("/stats/prometheus", "")) < 2 {
        std::thread::yield_now();
    }
    agent.signal();
    // Nothing between.
    assert_eq!(agent.next()["message"], "stopping on SIGTERM");
}

#[test]
fn health_and_metrics_are_served_without_envoy() {
    let agent = Agent::start(&[]);
    let answer = agent.get("/healthz", "");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );
    let answer = agent.get("/stats/prometheus", "");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("firebolt_gateway_wake_synced 0\n"), "{answer}");
}

#[test]
fn a_first_signal_ends_it_in_time_and_with_code_0() {
    let mut agent = Agent::start(&["--grace-period=2s"]);
    agent.signal();
    agent.logs("stopping on SIGTERM");
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn it_serves_while_it_stops_and_a_second_signal_ends_it_at_once() {
    // An Envoy that is there and says nothing is waited for.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = format!("--envoy-admin={}", silent.local_addr().unwrap());
    let mut agent = Agent::start(&["--grace-period=1h", &admin]);
    agent.signal();
    agent.logs("stopping on SIGTERM");
    let answer = agent.get("/hold", "x-firebolt-engine: analytics\r\n");
    assert!(answer.contains("x-firebolt-wake: blind\r\n"), "{answer}");
    agent.signal();
    agent.logs("ending at once on a second signal");
    assert_eq!(agent.end().code(), Some(1));
}
