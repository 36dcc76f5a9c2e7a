//! Clients that mean no good, over real connections, and one among them that does.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use fastrand::Rng;
use firebolt_operator::webhook;
use futures::{FutureExt, StreamExt, stream};
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::version::{TLS12, TLS13};
use testkit::wait::eventually_async;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::requests::requests;
use crate::tls_fixture::{Identity, Shown, handshake};
use crate::{ALONE, LIMIT, size};

/// More than the server serves at a time.
const CROWD: usize = 300;
/// As many as it serves at a time.
const SERVED: u32 = 256;
/// Requests of one client at a time. The server takes up to 250.
const STREAMS: usize = 20;
/// How much a crowd may leave behind, in KiB: most of all what the allocator keeps for the next one, which comes to the
/// buffers of some hundred connections.
const LEFT: u64 = 32 * 1024;

struct Server {
    address: SocketAddr,
    identity: Identity,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop, identity) = (
            listener.local_addr().unwrap(),
            CancellationToken::new(),
            Identity::new(),
        );
        let tls = webhook::tls(Arc::new(Shown::new(identity.clone())));
        let router = crate::webhook(&mut Rng::new());
        let task = tokio::spawn(webhook::serve(listener, tls, router, stop.clone()));
        Self {
            address,
            identity,
            stop,
            task,
        }
    }

    async fn connect(&self, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        handshake(socket, &self.identity.client(&[&TLS13, &TLS12], &[protocol])).await
    }

    /// What a good client has to say: it connects, asks, and is answered.
    async fn answers(&self, protocol: &str) {
        let asked = async {
            let stream = self.connect(protocol).await.unwrap();
            let (path, question) = &requests()[0];
            let request = request(path, Body::from(question.to_string()));
            let response = if protocol == "h2" {
                let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            } else {
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            };
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["response"]["uid"], question["request"]["uid"]);
        };
        timeout(LIMIT, asked).await.expect("a good client is answered");
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.expect("the server ends").unwrap();
    }
}

fn request(path: &str, body: Body) -> Request<Body> {
    let request = Request::post(format!("https://localhost{path}")).header("content-type", "application/json");
    request.body(body).unwrap()
}

/// Ways to take up the time of a server.
#[derive(Clone, Copy, Debug)]
enum Nuisance {
    /// Says nothing at all.
    Silent,
    /// Begins to agree on keys.
    HalfGreeting,
    /// Agrees on keys and says nothing more.
    Idle,
    /// Sends half of a head.
    HalfHead,
    /// Sends half of a body.
    HalfBody,
    /// Asks much at the same time and never comes to an end.
    ManyStreams,
    /// Asks again and again, and wants no answer.
    Resets,
    /// Speaks another language.
    Noise,
    /// Goes away in the middle.
    Leaves,
}

impl Nuisance {
    const ALL: [Self; 9] = [
        Self::Silent,
        Self::HalfGreeting,
        Self::Idle,
        Self::HalfHead,
        Self::HalfBody,
        Self::ManyStreams,
        Self::Resets,
        Self::Noise,
        Self::Leaves,
    ];

    /// Does what it does for as long as the server lets it, and says once it has got as far as it can. Errors are what it
    /// is after.
    async fn bother(self, server: &Server, settled: &Semaphore) {
        let _cut_off = match self {
            Self::Silent => self.raw(server, settled, b"").await,
            Self::HalfGreeting => self.raw(server, settled, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).await,
            Self::Noise => self.raw(server, settled, &[0x55; 5000]).await,
            Self::Idle => self.encrypted(server, settled, "").await,
            Self::HalfHead => {
                self.encrypted(server, settled, "POST / HTTP/1.1\r\nhost: a\r\nx-")
                    .await
            }
            Self::HalfBody | Self::Leaves => {
                let path = requests()[0].0;
                let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n");
                self.encrypted(server, settled, &format!("{head}content-length: 100000\r\n\r\n{{"))
                    .await
            }
            Self::ManyStreams | Self::Resets => self.streams(server, settled).await,
        };
    }

    async fn raw(self, server: &Server, settled: &Semaphore, words: &[u8]) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(server.address).await?;
        socket.write_all(words).await?;
        settled.add_permits(1);
        socket.read_to_end(&mut Vec::new()).await.map(drop)
    }

    async fn encrypted(self, server: &Server, settled: &Semaphore, words: &str) -> std::io::Result<()> {
        let mut stream = server.connect("http/1.1").await?;
        stream.write_all(words.as_bytes()).await?;
        settled.add_permits(1);
        match self {
            Self::Leaves => stream.get_ref().0.set_zero_linger(),
            _ => stream.read_to_end(&mut Vec::new()).await.map(drop),
        }
    }

    async fn streams(self, server: &Server, settled: &Semaphore) -> std::io::Result<()> {
        let stream = server.connect("h2").await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(std::io::Error::other)?;
        let connection = tokio::spawn(connection);
        settled.add_permits(1);
        let mut open = Vec::new();
        for _ in 0..STREAMS {
            let half = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 5000]))]);
            let half = half.chain(stream::pending());
            if sender.ready().await.is_err() {
                break;
            }
            let mut asked = Box::pin(sender.send_request(request(requests()[0].0, Body::from_stream(half))));
            // Started, and either kept or taken back at once.
            let _not_yet = asked.as_mut().now_or_never();
            match self {
                Self::Resets => tokio::task::yield_now().await,
                _ => open.push(asked),
            }
        }
        let _cut_off = connection.await;
        Ok(())
    }
}

/// Lets a crowd of these clients loose, and waits until they take up all that they can. They stop when it is dropped.
async fn crowd(server: &Arc<Server>, kinds: &[Nuisance]) -> JoinSet<()> {
    let (mut crowd, settled) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
    for index in 0..CROWD {
        let (server, kind, settled) = (Arc::clone(server), kinds[index % kinds.len()], Arc::clone(&settled));
        crowd.spawn(async move {
            kind.bother(&server, &settled).await;
            pending::<()>().await;
        });
    }
    let all = settled.acquire_many(SERVED);
    timeout(LIMIT, all)
        .await
        .expect("the crowd takes its places")
        .unwrap()
        .forget();
    crowd
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_client_is_answered_under_hostile_load() {
    let _alone = ALONE.lock().await;
    for kind in Nuisance::ALL {
        let server = Arc::new(Server::start().await);
        let begun = std::time::Instant::now();
        let crowd = crowd(&server, &[kind]).await;
        server.answers("h2").await;
        server.answers("http/1.1").await;
        println!("{kind:?}: answered after {:?}", begun.elapsed());
        drop(crowd);
        let server = alone(server).await;
        server.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_load_leaves_nothing_behind() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let crowd = crowd(&server, &Nuisance::ALL).await;
        server.answers("h2").await;
        drop(crowd);
        server.answers("http/1.1").await;
        sizes.push(size());
    }
    println!("KiB after each crowd: {sizes:?}");
    assert!(sizes[3] < sizes[0] + LEFT, "grown: {sizes:?}");
    alone(server).await.end().await;
}

/// The server once the crowd has let go of it.
async fn alone(server: Arc<Server>) -> Server {
    let is_alone = async || (Arc::strong_count(&server) == 1).then_some(());
    eventually_async("the crowd has let go of the server", LIMIT, is_alone).await;
    Arc::into_inner(server).expect("there is no other reference")
}
