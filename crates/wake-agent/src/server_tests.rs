use std::collections::BTreeSet;

use firebolt_api::AutoStopReason;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::*;
use crate::desk::{Job, Work, keep_time};
use crate::table::{Engine, Event, Settings};

/// A server whose list has a ready engine and a stopped one. Nothing ever reaches the latter.
struct Stage {
    address: SocketAddr,
    desk: Desk,
}

impl Stage {
    async fn new() -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory: 1 << 30,
            hold_timeout: Duration::from_mins(10),
        };
        let work: Work = Box::new(|desk, era, job| {
            if let Job::List(list) = job {
                let (desk, engines) = (desk.clone(), vec![engine("ready", 1), engine("stopped", 0)]);
                tokio::spawn(async move { desk.tell(era, Event::Listed(list, Some(engines))) });
            }
        });
        let metrics = Arc::<Metrics>::default();
        let desk = Desk::new(settings, Arc::default(), Arc::clone(&metrics), work);
        tokio::spawn(keep_time(desk.clone()));
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let envoy_admin = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let agent = Agent {
            desk: desk.clone(),
            metrics,
            envoy_admin,
        };
        tokio::spawn(serve(listener, Arc::new(agent)));
        let stage = Self { address, desk };
        stage.until(|desk| desk.occupancy().synced).await;
        stage
    }

    async fn until(&self, is_so: impl Fn(&Desk) -> bool) {
        let become_so = async {
            while !is_so(&self.desk) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(30), become_so)
            .await
            .expect("it becomes so");
    }

    async fn waiting(&self, count: usize) {
        self.until(|desk| desk.occupancy().waiting == count).await;
    }

    /// What the server says to these bytes, to the end of the connection.
    async fn says(&self, request: &str) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A refusal may come before all was read, and then ends with a reset.
        let _reset = socket.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A connection as Envoy has it.
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
#[case::strange_engine(get("/hold", "x-firebolt-engine: \u{fc}\r\n"), "400", "engine_malformed")]
#[case::metrics(get("/stats/prometheus", ""), "200", "firebolt_gateway_wake_synced 1\n")]
#[case::elsewhere(get("/", ""), "404", "There is nothing here.")]
#[case::not_a_question("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(), "405", "Only GET")]
#[tokio::test]
async fn every_request_has_its_answer(#[case] request: String, #[case] status: &str, #[case] part: &str) {
    let answer = Stage::new().await.says(&request).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(part), "{answer}");
}

#[rstest]
#[case::told("x-firebolt-bytes: 1000\r\n", 1000)]
#[case::more_than_envoy_keeps("x-firebolt-bytes: 99999999999\r\n", LARGEST_BODY)]
#[case::unreadable("x-firebolt-bytes: -1\r\n", LARGEST_BODY)]
#[case::absent("", LARGEST_BODY)]
#[tokio::test]
async fn a_request_takes_up_what_envoy_says(#[case] header: &str, #[case] bytes: u64) {
    let stage = Stage::new().await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = get("/hold", &format!("x-firebolt-engine: stopped\r\n{header}"));
    socket.write_all(request.as_bytes()).await.unwrap();
    stage.waiting(1).await;
    assert_eq!(stage.desk.occupancy().bytes, bytes + crate::table::OVERHEAD);
}

#[tokio::test]
async fn a_client_that_closes_its_connection_has_left() {
    let stage = Stage::new().await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = get("/hold", "x-firebolt-engine: stopped\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    stage.waiting(1).await;
    drop(socket);
    stage.waiting(0).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_has_left_and_the_others_stay() {
    let stage = Stage::new().await;
    let mut sender = stage.connect().await;
    let mut streams = JoinSet::new();
    let gone = streams.spawn(sender.send_request(hold("stopped")));
    streams.spawn(sender.send_request(hold("stopped")));
    stage.waiting(2).await;
    gone.abort();
    stage.waiting(1).await;
    let answer = sender.send_request(hold("ready")).await.unwrap();
    assert_eq!(answer.headers()["x-firebolt-wake"], "ready");
    drop(streams);
    drop(sender);
    stage.waiting(0).await;
}

#[tokio::test]
async fn one_connection_holds_a_thousand_and_survives_that_all_leave_at_once() {
    let stage = Stage::new().await;
    let mut sender = stage.connect().await;
    let mut streams = JoinSet::new();
    for _ in 0..1000 {
        streams.spawn(sender.send_request(hold("stopped")));
    }
    stage.waiting(1000).await;
    drop(streams);
    stage.waiting(0).await;
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
async fn requests_that_are_taken_back_before_anybody_looked_do_no_harm() {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    const GO_AWAY: u8 = 7;
    // The method and scheme by number; the path, the authority and the engine in letters.
    let head = b"\x82\x86\x04\x05/hold\x01\x01a\x00\x11x-firebolt-engine\x05ready";
    let stage = Stage::new().await;
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
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
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
async fn a_head_that_is_too_large_is_refused() {
    let stage = Stage::new().await;
    let long = "x".repeat(2 * HEADER_BYTES as usize);
    let answer = stage.says(&get("/hold", &format!("x: {long}\r\n"))).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let mut sender = stage.connect().await;
    let request = Request::get("http://agent/hold").header("x", &long);
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 431);
}

#[rstest]
#[case::nothing("")]
#[case::half_of_a_preface("PRI * HT")]
#[case::half_of_a_head("GET /hold HTTP/1.1\r\n")]
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_request_is_cut_off(#[case] beginning: &str) {
    let stage = Stage::new().await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    socket.write_all(beginning.as_bytes()).await.unwrap();
    let closed = timeout(HEADER_TIMEOUT * 3, socket.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_used_outlives_the_time_for_its_first_request() {
    let stage = Stage::new().await;
    let mut sender = stage.connect().await;
    let mut names = BTreeSet::new();
    for _ in 0..3 {
        let answer = sender.send_request(hold("ready")).await.expect("the connection lives");
        names.insert(answer.headers()["x-firebolt-wake"].to_str().unwrap().to_owned());
        sleep(HEADER_TIMEOUT * 2).await;
    }
    assert_eq!(names, BTreeSet::from(["ready".to_owned()]));
}
