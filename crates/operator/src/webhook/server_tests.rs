use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{Request, StatusCode, Version};
use axum::routing::get;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use rstest::rstest;
use rustls::{ProtocolVersion, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::webhook::tls_fixture::{Identity, Shown, handshake};

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
/// Timeout of anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A running server.
struct Running {
    address: SocketAddr,
    identity: Identity,
    shown: Arc<Shown>,
    /// Permits to respond at `/held`.
    release: Arc<Semaphore>,
    /// Requests received at `/held`.
    begun: Arc<Semaphore>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, identity) = (CancellationToken::new(), Identity::new());
    let shown = Arc::new(Shown::new(identity.clone()));
    let (release, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let held = {
        let (release, begun) = (Arc::clone(&release), Arc::clone(&begun));
        async move || {
            begun.add_permits(1);
            release.acquire().await.unwrap().forget();
            "done"
        }
    };
    let router = Router::new()
        .route("/here", get(async || "yes"))
        .route("/held", get(held));
    let server = tokio::spawn(serve(listener, tls(Arc::clone(&shown) as _), router, stop.clone()));
    Running {
        address,
        identity,
        shown,
        release,
        begun,
        stop,
        server,
    }
}

impl Running {
    async fn connect(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> TlsStream<TcpStream> {
        self.try_to_connect(&self.identity, versions, protocols).await.unwrap()
    }

    async fn try_to_connect(
        &self,
        trusted: &Identity,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        handshake(socket, &trusted.client(versions, protocols)).await
    }
}

/// Sends a request in the negotiated protocol, or in HTTP/1.1 if there is none.
async fn send(stream: TlsStream<TcpStream>, path: &str) -> (Version, StatusCode, String) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let request = Request::get(format!("https://localhost{path}"))
        .body(Body::empty())
        .unwrap();
    let response = if is_http2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    let response = response.unwrap();
    let (version, status) = (response.version(), response.status());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (version, status, String::from_utf8(body.to_vec()).unwrap())
}

#[rstest]
#[case(&TLS13, ProtocolVersion::TLSv1_3)]
#[case(&TLS12, ProtocolVersion::TLSv1_2)]
#[tokio::test]
async fn both_tls_versions_are_served(
    #[case] version: &'static SupportedProtocolVersion,
    #[case] agreed: ProtocolVersion,
) {
    let running = start().await;
    let stream = running.connect(&[version], &[]).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(agreed));
    assert_eq!(send(stream, "/here").await.2, "yes");
}

#[tokio::test]
async fn tls_1_3_is_preferred() {
    let stream = start().await.connect(&BOTH, &[]).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
}

/// The `ClientHello` of a client whose newest TLS version is 1.(minor - 1).
fn hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session; two cipher suites, of TLS 1.1 and of 1.2; no compression.
    body.extend([0, 0, 4, 0xc0, 0x09, 0xc0, 0x2b, 1, 0]);
    // The curve P-256, uncompressed points, and ECDSA on that curve.
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 0x17][..],
        &[0, 11, 0, 2, 1, 0],
        &[0, 13, 0, 4, 0, 2, 4, 3],
    ]
    .concat();
    let length = |length: usize| u8::try_from(length).unwrap();
    body.extend([0, length(extensions.len())]);
    body.extend(extensions);
    let message = [&[1, 0, 0, length(body.len())], &body[..]].concat();
    [&[22, 3, 1, 0, length(message.len())], &message[..]].concat()
}

#[rstest]
// A fatal alert: unsupported protocol version.
#[case::tls_1_0(1, &[21, 3, 3, 0, 2, 2, 70])]
#[case::tls_1_1(2, &[21, 3, 3, 0, 2, 2, 70])]
// The handshake goes on.
#[case::tls_1_2(3, &[22, 3, 3])]
#[tokio::test]
async fn older_tls_versions_are_rejected(#[case] minor: u8, #[case] expected: &[u8]) {
    let running = start().await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    socket.write_all(&hello(minor)).await.unwrap();
    let mut answer = vec![0; expected.len()];
    timeout(SOON, socket.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, expected);
}

#[rstest]
#[case::both(&["h2", "http/1.1"], Version::HTTP_2)]
#[case::http2(&["h2"], Version::HTTP_2)]
#[case::http1(&["http/1.1"], Version::HTTP_11)]
#[case::none(&[], Version::HTTP_11)]
#[tokio::test]
async fn the_protocol_is_negotiated(#[case] offered: &[&str], #[case] version: Version) {
    let running = start().await;
    let answer = send(running.connect(&BOTH, offered).await, "/here").await;
    assert_eq!(answer, (version, StatusCode::OK, "yes".to_owned()));
}

#[tokio::test]
async fn a_client_without_a_common_protocol_is_rejected() {
    let running = start().await;
    let refused = running.try_to_connect(&running.identity, &BOTH, &["spdy/3"]).await;
    refused.unwrap_err();
}

#[tokio::test]
async fn a_replaced_certificate_is_used_by_the_next_connection() {
    let running = start().await;
    let before = running.connect(&BOTH, &[]).await;
    let next = Identity::new();
    running.shown.show(next.clone());
    let shown = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    let after = running.try_to_connect(&next, &BOTH, &[]).await.unwrap();
    assert_eq!(
        (shown(&before), shown(&after)),
        (running.identity.certificate.clone(), next.certificate)
    );
    running.try_to_connect(&running.identity, &BOTH, &[]).await.unwrap_err();
    // A connection that is open continues.
    assert_eq!(send(before, "/here").await.2, "yes");
}

#[rstest]
#[tokio::test]
async fn a_request_in_flight_is_completed_before_the_server_stops(#[values("h2", "http/1.1")] protocol: &str) {
    let running = start().await;
    let (begun, idle) = (
        running.connect(&BOTH, &[protocol]).await,
        running.connect(&BOTH, &[protocol]).await,
    );
    let answer = tokio::spawn(send(begun, "/held"));
    timeout(SOON, running.begun.acquire()).await.unwrap().unwrap().forget();
    running.stop.cancel();
    // From here on, new connections are rejected.
    let refused = async {
        while running
            .try_to_connect(&running.identity, &BOTH, &[protocol])
            .await
            .is_ok()
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, refused).await.unwrap();
    assert!(!running.server.is_finished(), "the server stopped before the response");
    running.release.add_permits(1);
    let (_, status, text) = timeout(SOON, answer).await.unwrap().unwrap();
    assert_eq!((status, text.as_str()), (StatusCode::OK, "done"));
    timeout(SOON, running.server).await.unwrap().unwrap();
    drop(idle);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_completes_delays_the_stop_only_by_the_grace_period() {
    let running = start().await;
    let begun = running.connect(&BOTH, &["h2"]).await;
    let _cut_off = tokio::spawn(send(begun, "/held"));
    running.begun.acquire().await.unwrap().forget();
    running.stop.cancel();
    timeout(2 * GRACE_PERIOD, running.server).await.unwrap().unwrap();
}

#[rstest]
#[case::silent(&[])]
#[case::half_a_hello(&[22, 3, 1, 0, 200, 1, 0])]
#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_complete_times_out(#[case] bytes: &[u8]) {
    let running = start().await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let closed = timeout(2 * HANDSHAKE_TIMEOUT, socket.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn an_incomplete_handshake_does_not_delay_the_stop() {
    let running = start().await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    // Connections are accepted in their order.
    drop(running.connect(&BOTH, &[]).await);
    running.stop.cancel();
    timeout(SOON, running.server).await.unwrap().unwrap();
    let _closed_or_reset = timeout(SOON, socket.read(&mut [0])).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn headers_that_are_too_large_are_rejected(#[values("h2", "http/1.1")] protocol: &str) {
    let running = start().await;
    let path = format!("/here?{}", "x".repeat(2 * HEADER_BYTES as usize));
    let (_, status, _) = send(running.connect(&BOTH, &[protocol]).await, &path).await;
    assert!(
        [StatusCode::URI_TOO_LONG, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE].contains(&status),
        "{status}"
    );
}
