use std::collections::BTreeSet;

use firebolt_api::AutoStopReason;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::hold::{Engine, Event, Settings};
use crate::hold_queue::{Executor, Job, run_timers};

/// A server with a ready engine and a stopped one that no probe ever reaches.
struct Fixture {
    address: SocketAddr,
    queue: HoldQueue,
}

impl Fixture {
    async fn new() -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory: 1 << 30,
            hold_timeout: Duration::from_mins(10),
        };
        let executor: Executor = Box::new(|queue, epoch, job| {
            if let Job::List(list) = job {
                let (queue, engines) = (queue.clone(), vec![engine("ready", 1), engine("stopped", 0)]);
                tokio::spawn(async move { queue.report(epoch, Event::Listed(list, Some(engines))) });
            }
        });
        let metrics = Arc::<Metrics>::default();
        let queue = HoldQueue::new("sales", settings, Arc::default(), Arc::clone(&metrics), executor);
        tokio::spawn(run_timers(queue.clone()));
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let envoy_admin = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let agent = Agent {
            queue: queue.clone(),
            metrics,
            envoy_admin,
        };
        tokio::spawn(serve(listener, Arc::new(agent)));
        let fixture = Self { address, queue };
        fixture.until(|queue| queue.occupancy().synced).await;
        fixture
    }

    async fn until(&self, condition: impl Fn(&HoldQueue) -> bool) {
        let wait = async {
            while !condition(&self.queue) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(30), wait)
            .await
            .expect("the condition becomes true");
    }

    async fn waiting(&self, count: usize) {
        self.until(|queue| queue.occupancy().waiting == count).await;
    }

    /// Sends bytes and returns everything that the server sends until it closes the connection.
    async fn send(&self, request: &str) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // An early error response may end with a reset.
        let _reset = socket.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// An HTTP/2 connection, as Envoy uses.
    async fn connect(&self) -> SendRequest<Empty<Bytes>> {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn engine(name: &str, replicas: i32) -> Engine {
    Engine {
        name: name.to_owned(),
        instance: "main".to_owned(),
        replicas,
        ready: replicas > 0,
        auto_stop: Some(AutoStopReason::Stopped),
        wake_requested: None,
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n{headers}\r\n")
}

fn hold(engine: &str) -> Request<Empty<Bytes>> {
    let request = Request::get("http://agent/hold").header("x-firebolt-engine", engine);
    request.header("x-firebolt-bytes", "0").body(Empty::new()).unwrap()
}

#[rstest]
#[case::health(get("/healthz", ""), "200", "ok\n")]
#[case::ready(get("/hold", "x-firebolt-engine: ready\r\n"), "200", "x-firebolt-wake: ready")]
#[case::unknown(get("/hold", "x-firebolt-engine: unknown\r\n"), "404", "engine_not_found")]
#[case::no_engine(get("/hold", ""), "400", "engine_malformed")]
#[case::not_ascii(get("/hold", "x-firebolt-engine: \u{fc}\r\n"), "400", "engine_malformed")]
#[case::metrics(get("/stats/prometheus", ""), "200", "firebolt_gateway_wake_synced 1\n")]
#[case::other_path(get("/", ""), "404", "Not found.")]
#[case::other_method("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(), "405", "Only GET")]
#[tokio::test]
async fn every_request_gets_its_response(#[case] request: String, #[case] status: &str, #[case] part: &str) {
    let answer = Fixture::new().await.send(&request).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(part), "{answer}");
}

#[rstest]
#[case::known("x-firebolt-bytes: 1000\r\n", 1000)]
#[case::more_than_envoy_buffers("x-firebolt-bytes: 99999999999\r\n", LARGEST_BODY)]
#[case::invalid("x-firebolt-bytes: -1\r\n", LARGEST_BODY)]
#[case::absent("", LARGEST_BODY)]
#[tokio::test]
async fn a_request_counts_with_the_size_that_envoy_sends(#[case] header: &str, #[case] bytes: u64) {
    let fixture = Fixture::new().await;
    let mut socket = TcpStream::connect(fixture.address).await.unwrap();
    let request = get("/hold", &format!("x-firebolt-engine: stopped\r\n{header}"));
    socket.write_all(request.as_bytes()).await.unwrap();
    fixture.waiting(1).await;
    assert_eq!(fixture.queue.occupancy().bytes, bytes + crate::hold::OVERHEAD);
}

#[tokio::test]
async fn a_closed_connection_removes_the_request() {
    let fixture = Fixture::new().await;
    let mut socket = TcpStream::connect(fixture.address).await.unwrap();
    let request = get("/hold", "x-firebolt-engine: stopped\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    fixture.waiting(1).await;
    drop(socket);
    fixture.waiting(0).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_is_removed_and_the_others_stay() {
    let fixture = Fixture::new().await;
    let mut sender = fixture.connect().await;
    let mut streams = JoinSet::new();
    let gone = streams.spawn(sender.send_request(hold("stopped")));
    streams.spawn(sender.send_request(hold("stopped")));
    fixture.waiting(2).await;
    gone.abort();
    fixture.waiting(1).await;
    let answer = sender.send_request(hold("ready")).await.unwrap();
    assert_eq!(answer.headers()["x-firebolt-wake"], "ready");
    drop(streams);
    drop(sender);
    fixture.waiting(0).await;
}

#[tokio::test]
async fn a_connection_with_a_thousand_requests_survives_that_all_are_reset_at_once() {
    let fixture = Fixture::new().await;
    let mut sender = fixture.connect().await;
    let mut streams = JoinSet::new();
    for _ in 0..1000 {
        streams.spawn(sender.send_request(hold("stopped")));
    }
    fixture.waiting(1000).await;
    drop(streams);
    fixture.waiting(0).await;
    let answer = sender.send_request(hold("ready")).await.expect("the connection lives");
    assert_eq!(answer.headers()["x-firebolt-wake"], "ready");
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

#[tokio::test]
async fn requests_that_are_reset_immediately_do_not_close_the_connection() {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    const GO_AWAY: u8 = 7;
    // Method and scheme indexed; path, authority and engine as literals.
    let head = b"\x82\x86\x04\x05/hold\x01\x01a\x00\x11x-firebolt-engine\x05ready";
    let fixture = Fixture::new().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    let last = 2001;
    for stream in (1..=last).step_by(2) {
        // The request has no body.
        bytes.extend(frame(HEADERS, 0x05, stream, head));
        if stream < last {
            bytes.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
        }
    }
    let mut socket = TcpStream::connect(fixture.address).await.unwrap();
    socket.write_all(&bytes).await.unwrap();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await.expect("the connection lives");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize]).await.unwrap();
        assert_ne!(head[3], GO_AWAY);
        if head[3] == HEADERS && head[5..] == last.to_be_bytes() {
            return;
        }
    }
}

#[tokio::test]
async fn a_request_head_that_is_too_large_is_rejected() {
    let fixture = Fixture::new().await;
    let long = "x".repeat(2 * HEADER_BYTES as usize);
    let answer = fixture.send(&get("/hold", &format!("x: {long}\r\n"))).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let mut sender = fixture.connect().await;
    let request = Request::get("http://agent/hold").header("x", &long);
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 431);
}

#[rstest]
#[case::nothing("")]
#[case::half_of_a_preface("PRI * HT")]
#[case::half_of_a_head("GET /hold HTTP/1.1\r\n")]
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_request_is_disconnected(#[case] beginning: &str) {
    let fixture = Fixture::new().await;
    let mut socket = TcpStream::connect(fixture.address).await.unwrap();
    socket.write_all(beginning.as_bytes()).await.unwrap();
    let closed = timeout(HEADER_TIMEOUT * 3, socket.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_requests_outlives_the_header_timeout() {
    let fixture = Fixture::new().await;
    let mut sender = fixture.connect().await;
    let mut names = BTreeSet::new();
    for _ in 0..3 {
        let answer = sender.send_request(hold("ready")).await.expect("the connection lives");
        names.insert(answer.headers()["x-firebolt-wake"].to_str().unwrap().to_owned());
        sleep(HEADER_TIMEOUT * 2).await;
    }
    assert_eq!(names, BTreeSet::from(["ready".to_owned()]));
}
