//! The load and the ledger, with an engine and no gateway.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::{Faults, Ledger, Load, Report, Settings};
use crate::client::{Client, Endpoint};
use crate::engine::{self, Engine};

const SOON: Duration = Duration::from_secs(30);

async fn ledger() -> Ledger {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ledger::bind(any).await.expect("a ledger")
}

async fn engine(ledger: Option<&str>) -> Engine {
    let settings = engine::Settings {
        query_port: 0,
        health_port: 0,
        metrics_port: 0,
        ledger: ledger.map(|url| url.parse().expect("a URL")),
        ..engine::Settings::of_pod("engine-0", Ipv4Addr::LOCALHOST)
    };
    Engine::start(&settings).await.expect("an engine")
}

fn load(engine: &Engine, settings: Settings) -> Load {
    let gateway = format!("http://{}", engine.query_address());
    Load::start(gateway.parse().expect("a URL"), "analytics", settings)
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("in time")
}

/// Sends a query with an identifier, as a client without account would.
async fn send(engine: &Engine, id: &str) -> (u16, String) {
    let endpoint: Endpoint = format!("http://{}", engine.query_address()).parse().expect("a URL");
    let statement = format!("INSERT INTO t VALUES ('{id}')");
    let request = axum::http::Request::post("/")
        .body(statement.into())
        .expect("a request");
    let (status, body) = in_time(Client::new(endpoint).send(request)).await.expect("an answer");
    (status.as_u16(), String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn what_is_answered_ran_once_and_is_in_the_ledger() {
    let ledger = ledger().await;
    let engine = engine(Some(&ledger.url())).await;
    let load = load(&engine, Settings::default());
    in_time(load.answers(200)).await;
    let report = in_time(load.stop()).await;
    report.check(&ledger).expect("no faults");
    assert!(report.answered.len() >= 200);
    let answered: BTreeSet<&String> = report.answered.iter().collect();
    let executions = ledger.executions();
    assert_eq!(answered, executions.keys().collect());
    assert!(executions.values().all(|pods| pods == &["engine-0"]));
    let latency = report.latency();
    assert!(Duration::ZERO < latency.p50 && latency.p50 <= latency.p99 && latency.p99 <= latency.max);
}

#[tokio::test]
async fn queries_run_as_long_as_asked_for_and_are_counted() {
    let ledger = ledger().await;
    let engine = engine(Some(&ledger.url())).await;
    let settings = Settings {
        clients: 3,
        duration: Duration::from_hours(1),
        ..Settings::default()
    };
    let load = load(&engine, settings);
    let counts = in_time(load.until(|counts| counts.in_flight == 3)).await;
    assert_eq!((counts.sent, counts.answered, counts.failed), (3, 0, 0));
    let stopped = tokio::spawn(load.stop());
    in_time(engine.until_running(3)).await;
    engine.release();
    let report = in_time(stopped).await.expect("a report");
    report.check(&ledger).expect("no faults");
    assert_eq!(report.answered.len(), 3);
}

#[tokio::test]
async fn a_pause_is_no_reason_to_wait_for_the_end() {
    let engine = engine(None).await;
    let settings = Settings {
        clients: 1,
        pause: Duration::from_hours(1),
        ..Settings::default()
    };
    let load = load(&engine, settings);
    in_time(load.answers(1)).await;
    assert_eq!(in_time(load.stop()).await.answered.len(), 1);
}

#[tokio::test]
async fn a_query_that_ran_twice_is_a_fault() {
    let ledger = ledger().await;
    let engine = engine(Some(&ledger.url())).await;
    let load = load(&engine, Settings::default());
    in_time(load.answers(10)).await;
    let report = in_time(load.stop()).await;
    let id = &report.answered[3];
    assert_eq!(send(&engine, id).await.0, 200);
    let faults = report.check(&ledger).expect_err("a fault");
    assert_eq!(faults.ran_twice.keys().collect::<Vec<_>>(), [id]);
    assert!(faults.lost.is_empty() && faults.failures.is_empty());
    let expected = format!("1 queries ran twice, 0 were lost, 0 failed\n{id} ran on engine-0 and engine-0");
    assert_eq!(faults.to_string(), expected);
}

#[tokio::test]
async fn an_answer_without_an_execution_is_a_fault() {
    let ledger = ledger().await;
    // It reports nothing, as one that answers from nowhere would.
    let engine = engine(None).await;
    let load = load(&engine, Settings::default());
    in_time(load.answers(10)).await;
    let report = in_time(load.stop()).await;
    let faults = report.check(&ledger).expect_err("a fault");
    assert_eq!(faults.lost, report.answered);
}

#[tokio::test]
async fn an_engine_that_is_killed_makes_failures_and_nothing_worse() {
    let ledger = ledger().await;
    let engine = engine(Some(&ledger.url())).await;
    let settings = Settings {
        duration: Duration::from_millis(1),
        ..Settings::default()
    };
    let load = load(&engine, settings);
    in_time(load.answers(20)).await;
    engine.kill().await;
    in_time(load.until(|counts| counts.failed >= 20)).await;
    let report = in_time(load.stop()).await;
    let Faults {
        ran_twice,
        lost,
        failures,
    } = report.faults(&ledger);
    assert!(ran_twice.is_empty() && lost.is_empty());
    assert_eq!(failures, report.failures);
    assert!(
        failures
            .iter()
            .any(|failure| failure.reason.starts_with("connect to 127.0.0.1:"))
    );
}

#[tokio::test]
async fn an_engine_that_shuts_down_makes_failures_that_say_so() {
    let engine = engine(None).await;
    engine.begin_shutdown();
    let load = load(&engine, Settings::default());
    in_time(load.answers(8)).await;
    let report = in_time(load.stop()).await;
    assert!(report.answered.is_empty());
    assert_eq!(report.failures[0].reason, "status 503: this engine is shutting down");
}

#[tokio::test]
async fn a_query_that_cannot_be_reported_is_not_executed() {
    let ledger = ledger().await;
    let engine = engine(Some(&ledger.url())).await;
    assert_eq!(send(&engine, "before").await.0, 200);
    assert_eq!(ledger.executions().keys().collect::<Vec<_>>(), ["before"]);
    drop(ledger);
    let (status, body) = send(&engine, "after").await;
    assert_eq!(status, 500);
    assert!(
        body.starts_with("this query was not executed: report to the ledger: "),
        "{body}"
    );
    assert_eq!((engine.executed(), engine.running()), (vec!["before".to_owned()], 0));
}

#[test]
fn latencies_are_those_of_all_clients() {
    let part = |latencies: [u64; 3]| {
        let mut report = Report::default();
        for latency in latencies {
            report.answer(latency.to_string(), Duration::from_millis(latency));
        }
        report
    };
    let whole = Report::merged(vec![part([5, 1, 3]), part([4, 6, 2])]);
    let latency = whole.latency();
    let milliseconds = [latency.p50, latency.p99, latency.max].map(|latency| latency.as_millis());
    assert_eq!(milliseconds, [3, 6, 6]);
    assert_eq!(Report::default().latency(), super::Latency::default());
}
