//! The contract of an engine, seen from outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use firebolt_core::activity;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, Engine, METRICS_PATH, METRICS_SWITCH_PATH, Settings};

const SOON: Duration = Duration::from_secs(30);

async fn engine() -> Engine {
    let settings = Settings {
        query_port: 0,
        health_port: 0,
        metrics_port: 0,
        ..Settings::of_pod("engine-0", Ipv4Addr::LOCALHOST)
    };
    Engine::start(&settings).await.unwrap()
}

/// Sends a request and returns the status, the head and the body of the answer.
async fn ask(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(SOON, socket.read_to_string(&mut answer))
        .await
        .expect("an answer in time")
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

async fn get(address: SocketAddr, target: &str) -> (u16, String, String) {
    ask(
        address,
        &format!("GET {target} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n"),
    )
    .await
}

async fn busy(engine: &Engine) -> u64 {
    let (_, _, metrics) = get(engine.metrics_address(), "/metrics").await;
    activity::queries(metrics.as_bytes()).unwrap()
}

async fn until_running(engine: &Engine, count: usize) {
    let begun = timeout(SOON, engine.until_running(count));
    begun.await.expect("the query begins in time");
}

#[tokio::test]
async fn the_answer_describes_the_request() {
    let engine = engine().await;
    let request = "POST /path?a=%20b&c HTTP/1.1\r\nHost: e\r\nX-Query-Id: q1\r\nTwice: 1\r\ntwice: 2\r\n\
                   Content-Length: 3\r\nConnection: close\r\n\r\nabc";
    let (status, _, body) = ask(engine.query_address(), request).await;
    let answer: Answer = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, answer.pod.as_str(), answer.query_id.as_str()),
        (200, "engine-0", "q1")
    );
    assert_eq!(
        (answer.method.as_str(), answer.target.as_str()),
        ("POST", "/path?a=%20b&c")
    );
    assert_eq!(answer.header("twice").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(answer.body_bytes, 3);
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(answer.body_sha256, digest);
}

#[tokio::test]
async fn every_execution_is_written_down() {
    let engine = engine().await;
    for target in ["/?query_id=a", "/?query_id=b", "/any/path?query_id=a", "/"] {
        assert_eq!(get(engine.query_address(), target).await.0, 200);
    }
    assert_eq!(engine.executed(), ["a", "b", "a", "engine-0-3"]);
    let (_, _, listed) = get(engine.metrics_address(), "/stand-in/executed").await;
    assert_eq!(serde_json::from_str::<Vec<String>>(&listed).unwrap(), engine.executed());
}

#[tokio::test]
async fn a_request_that_is_cut_off_is_not_executed() {
    let engine = engine().await;
    let mut socket = TcpStream::connect(engine.query_address()).await.unwrap();
    let request = "POST /?query_id=cut HTTP/1.1\r\nHost: e\r\nContent-Length: 10\r\n\r\nabc";
    socket.write_all(request.as_bytes()).await.unwrap();
    drop(socket);
    assert_eq!(get(engine.query_address(), "/?query_id=whole").await.0, 200);
    assert_eq!(engine.executed(), ["whole"]);
}

#[tokio::test]
async fn a_shutdown_turns_new_queries_away_and_finishes_the_running_one() {
    let engine = engine().await;
    assert_eq!(get(engine.health_address(), "/health/ready").await.0, 200);
    assert_eq!(get(engine.query_address(), "/health/ready").await.0, 200);
    assert_eq!(busy(&engine).await, 0);

    let address = engine.query_address();
    let long = tokio::spawn(async move { get(address, "/?query_id=long&query_duration=1h").await });
    until_running(&engine, 1).await;
    assert_eq!(busy(&engine).await, 1);
    engine.begin_shutdown();

    let (status, head, _) = get(address, "/?query_id=late").await;
    assert_eq!(status, 503);
    assert!(head.contains("x-firebolt-drained: true"), "{head}");
    assert_eq!(get(address, "/health/ready").await.0, 503);
    assert_eq!(get(engine.health_address(), "/health/ready").await.0, 503);
    assert_eq!(get(engine.health_address(), "/health/live").await.0, 200);

    assert!(!long.is_finished());
    engine.release();
    assert_eq!(long.await.unwrap().0, 200, "the running query is answered");
    timeout(SOON, engine.finished()).await.unwrap();
    assert_eq!((engine.executed(), engine.rejected()), (vec!["long".to_owned()], 1));
}

#[tokio::test]
async fn a_query_is_turned_away_before_its_body_was_read() {
    let engine = engine().await;
    engine.begin_shutdown();
    let mut socket = TcpStream::connect(engine.query_address()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 4000000\r\nConnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    timeout(SOON, socket.read_exact(&mut start))
        .await
        .expect("an answer without a body")
        .unwrap();
    assert_eq!(start, *b"HTTP/1.1 503");
    socket
        .write_all(&vec![b'x'; 4_000_000])
        .await
        .expect("the rest is read");
    let mut rest = Vec::new();
    timeout(SOON, socket.read_to_end(&mut rest))
        .await
        .unwrap()
        .expect("no reset");
}

#[tokio::test]
async fn an_engine_that_is_killed_frees_its_ports_and_ends_its_connections() {
    let engine = engine().await;
    let address = engine.query_address();
    let mut idle = TcpStream::connect(address).await.unwrap();
    get(address, "/").await;
    engine.kill().await;
    assert!(TcpStream::connect(address).await.is_err());
    let ended = timeout(SOON, idle.read(&mut [0; 1]))
        .await
        .expect("the connection ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

#[tokio::test]
async fn an_engine_that_shuts_down_answers_its_last_query_and_frees_its_ports() {
    let engine = engine().await;
    let address = engine.query_address();
    let _idle = TcpStream::connect(address).await.unwrap();
    let last = tokio::spawn(async move { get(address, "/?query_duration=1h").await });
    until_running(&engine, 1).await;
    engine.begin_shutdown();
    engine.release();
    timeout(SOON, engine.shut_down())
        .await
        .expect("it ends, also with an idle connection");
    assert_eq!(last.await.unwrap().0, 200);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_duration_that_cannot_be_read_is_refused() {
    let engine = engine().await;
    let (status, _, body) = get(engine.query_address(), "/?query_duration=soon").await;
    assert_eq!(status, 400);
    assert!(body.contains("\"soon\" is not a duration"), "{body}");
    assert!(engine.executed().is_empty());
}

/// Posts a body and returns the status and the body of the answer.
async fn post(address: SocketAddr, target: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: e\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let (status, _, answer) = ask(address, &format!("{head}{body}")).await;
    (status, answer)
}

#[tokio::test]
async fn statements_that_a_person_would_type_are_answered_in_tables() {
    let engine = engine().await;
    let address = engine.query_address();
    let table = async |statement: &str| {
        let (status, body) = post(address, "/", statement).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).expect("JSON")
    };
    assert_eq!(table("SELECT 42").await["data"], json!([[42]]));
    assert_eq!(table("SELECT sleep(0.001)").await["rows"], json!(1));
    assert_eq!(table("INSERT INTO t VALUES ('mine')").await["rows"], json!(0));
    assert_eq!(engine.executed(), ["engine-0-0", "engine-0-1", "mine"]);

    let asleep = tokio::spawn(async move { post(address, "/", "SELECT sleep(3600)").await });
    until_running(&engine, 1).await;
    engine.release();
    assert_eq!(asleep.await.unwrap().0, 200);
}

#[tokio::test]
async fn a_header_or_parameter_wins_over_the_statement() {
    let engine = engine().await;
    let statement = "INSERT INTO t VALUES ('of-statement')";
    post(engine.query_address(), "/?query_id=of-parameter", statement).await;
    post(engine.query_address(), "/?query_duration=0s", "SELECT sleep(3600)").await;
    assert_eq!(engine.executed(), ["of-parameter", "engine-0-1"]);
}

#[tokio::test]
async fn a_body_that_is_too_long_for_a_statement_is_none() {
    let engine = engine().await;
    let long = format!("SELECT {}42", " ".repeat(2000));
    let (_, body) = post(engine.query_address(), "/", &long).await;
    let answer: Answer = serde_json::from_str(&body).unwrap();
    assert_eq!(answer.body_bytes, 2009);
}

#[tokio::test]
async fn metrics_break_and_recover_on_request() {
    let engine = engine().await;
    let address = engine.metrics_address();
    let switch = async |word: &str| post(address, METRICS_SWITCH_PATH, word).await.0;
    assert_eq!(switch("broken").await, 204);
    assert_eq!(get(address, METRICS_PATH).await.0, 500);
    assert_eq!(switch("odd").await, 400);
    assert_eq!(get(address, METRICS_PATH).await.0, 500);
    assert_eq!(switch("ok").await, 204);
    assert_eq!(busy(&engine).await, 0);
}
