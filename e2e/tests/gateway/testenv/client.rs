//! Clients of the gateway: one that speaks proper HTTP, and one that sends raw bytes.

use std::net::SocketAddr;

use e2e::wait::SOON;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use stand_ins::engine::Answer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The address of the gateway for clients.
pub(crate) const GATEWAY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// The header that selects an engine.
pub(crate) const SELECTOR: &str = "x-firebolt-engine";

/// A query with a body.
pub(crate) type Query = Request<Full<Bytes>>;

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// The answer of an engine to a query that it executed.
    #[track_caller]
    pub(crate) fn answer(&self) -> Answer {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no answer of an engine: {error}: {self:?}"))
    }

    /// The code of an error that the gateway itself returns. All errors have the same shape.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, String) {
        assert_eq!(self.headers.get(CONTENT_TYPE).unwrap(), "application/json", "{self:?}");
        (self.status, error_code(&self.body))
    }
}

/// The code in the body of an error, after a check of its message.
#[track_caller]
pub(crate) fn error_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let value: Value = serde_json::from_slice(body).unwrap_or_else(|_| panic!("no JSON: {text}"));
    let message = value["error"]["message"].as_str().expect("a message");
    assert!(message.len() > 20 && message.ends_with('.'), "no sentence: {message}");
    assert!(!text.contains("svc."), "the name of a host leaks: {text}");
    let code = value["error"]["code"].as_str().expect("a code");
    assert!(
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
        "{code}"
    );
    code.to_owned()
}

/// A query for an engine.
pub(crate) fn query(engine: &str) -> http::request::Builder {
    request("/").header(SELECTOR, engine)
}

/// A request that selects no engine yet.
pub(crate) fn request(target: &str) -> http::request::Builder {
    Request::post(target).header(HOST, "gateway.example")
}

/// Completes a request without a body.
pub(crate) fn empty(builder: http::request::Builder) -> Query {
    with_body(builder, Bytes::new())
}

/// Completes a request with a body.
pub(crate) fn with_body(builder: http::request::Builder, body: impl Into<Bytes>) -> Query {
    builder.body(Full::new(body.into())).expect("a valid request")
}

/// Sends a request on a new connection.
pub(crate) async fn send(query: Query) -> Reply {
    try_send(query).await.expect("an answer")
}

/// Sends a request on a new connection, which may end without a response.
pub(crate) async fn try_send(query: Query) -> hyper::Result<Reply> {
    Connection::open().await.send(query).await
}

/// Sends an empty query for an engine on a new connection.
pub(crate) async fn ask(engine: &str) -> Reply {
    send(empty(query(engine))).await
}

/// A connection for several requests, which is replaced when the gateway has closed it.
pub(crate) struct Connection {
    address: SocketAddr,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn open() -> Self {
        Self::to(GATEWAY).await
    }

    pub(crate) async fn to(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.expect("connect to the gateway");
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.expect("shake hands");
        tokio::spawn(connection);
        Self { address, sender }
    }

    pub(crate) async fn send(&mut self, query: Query) -> hyper::Result<Reply> {
        // The request was not sent, so it is not sent twice.
        if self.sender.ready().await.is_err() {
            *self = Self::to(self.address).await;
        }
        let reply = timeout(SOON, async { whole(self.sender.send_request(query).await?).await });
        reply.await.expect("an answer in time")
    }
}

/// Sends a request by HTTP/2 without encryption.
pub(crate) async fn send_http2(query: Query) -> hyper::Result<Reply> {
    let socket = TcpStream::connect(GATEWAY).await.expect("connect to the gateway");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    let reply = timeout(SOON, async { whole(sender.send_request(query).await?).await });
    reply.await.expect("an answer in time")
}

async fn whole(response: http::Response<hyper::body::Incoming>) -> hyper::Result<Reply> {
    let (head, body) = response.into_parts();
    Ok(Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}

/// Sends bytes and returns the first response.
pub(crate) async fn raw(bytes: impl AsRef<[u8]>) -> RawReply {
    raw_to(GATEWAY, bytes).await
}

/// Sends bytes to an address and returns the first response, which is incomplete if the connection is closed.
pub(crate) async fn raw_to(address: SocketAddr, bytes: impl AsRef<[u8]>) -> RawReply {
    read_until(RawReply::is_whole, address, bytes.as_ref()).await
}

/// Sends bytes and returns everything that is received before the gateway closes the connection.
pub(crate) async fn raw_until_closed(bytes: impl AsRef<[u8]>) -> RawReply {
    read_until(|_| false, GATEWAY, bytes.as_ref()).await
}

async fn read_until(is_enough: impl Fn(&RawReply) -> bool, address: SocketAddr, bytes: &[u8]) -> RawReply {
    let mut socket = TcpStream::connect(address).await.expect("connect");
    // An early error response may end with a reset.
    let _reset = socket.write_all(bytes).await;
    read_reply(&mut socket, is_enough).await
}

async fn read_reply(socket: &mut TcpStream, is_enough: impl Fn(&RawReply) -> bool) -> RawReply {
    let mut reply = RawReply { bytes: Vec::new() };
    let end = async {
        while !is_enough(&reply) {
            match socket.read_buf(&mut reply.bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    timeout(SOON, end).await.expect("an answer in time");
    reply
}

/// A request that is sent in parts.
pub(crate) struct Upload {
    socket: TcpStream,
}

impl Upload {
    /// Sends the first part.
    pub(crate) async fn start(bytes: &[u8]) -> Self {
        let socket = TcpStream::connect(GATEWAY).await.expect("connect");
        let mut upload = Self { socket };
        upload.send(bytes).await;
        upload
    }

    /// Sends another part.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.expect("the gateway reads on");
    }

    /// Waits until the gateway asks for the body.
    pub(crate) async fn goes_on(&mut self) {
        let asked = read_reply(&mut self.socket, |reply| reply.bytes.ends_with(b"\r\n\r\n")).await;
        assert_eq!(asked.status(), Some(100), "{}", asked.text());
    }

    /// The response.
    pub(crate) async fn reply(&mut self) -> RawReply {
        read_reply(&mut self.socket, RawReply::is_whole).await
    }
}

/// The bytes that were received on a connection.
#[derive(Debug, Clone)]
pub(crate) struct RawReply {
    pub bytes: Vec<u8>,
}

impl RawReply {
    /// The status of the response, if there is one.
    pub(crate) fn status(&self) -> Option<u16> {
        let head = self.bytes.strip_prefix(b"HTTP/1.1 ")?;
        std::str::from_utf8(head.get(..3)?).ok()?.parse().ok()
    }

    /// The body of the response, as transferred.
    pub(crate) fn body(&self) -> &[u8] {
        self.head_length().map_or(&[], |length| &self.bytes[length..])
    }

    fn head_length(&self) -> Option<usize> {
        let end = self.bytes.windows(4).position(|window| window == b"\r\n\r\n");
        end.map(|end| end + 4)
    }

    /// Whether head and body are complete. A chunked body is complete with its last chunk.
    fn is_whole(&self) -> bool {
        let Some(length) = self.head_length() else {
            return false;
        };
        let head = String::from_utf8_lossy(&self.bytes[..length]).to_lowercase();
        let body = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        match body {
            Some(body) => self.body().len() >= body,
            None if head.contains("transfer-encoding: chunked") => self.body().ends_with(b"0\r\n\r\n"),
            None => false,
        }
    }

    /// The whole response as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
