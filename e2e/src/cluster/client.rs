//! A client for single requests to gateways and pods.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of a request. It catches requests that hang, and measures nothing.
const LIMIT: Duration = Duration::from_mins(2);

/// The error codes of a gateway for queries that were not executed because the engine is not available.
pub(super) const TURNED_AWAY: [&str; 4] = [
    "engine_unavailable",
    "engine_unreachable",
    "engine_stopped",
    "engine_start_timeout",
];

/// The response to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status of the response.
    pub status: u16,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The body of the response.
    pub body: String,
}

impl Reply {
    /// The value of a header; empty if there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Status and error code of a response that the gateway sends in place of an engine.
    #[must_use]
    pub fn refusal(&self) -> (u16, String) {
        let code = self.json()["error"]["code"].as_str().map(str::to_owned);
        (self.status, code.unwrap_or_else(|| panic!("find a code in {self:?}")))
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("read the answer {self:?}: {error}"))
    }
}

/// A connection to a gateway or a pod that stays open between requests.
#[derive(Debug)]
pub struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, String> {
        let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, String> {
        let exchange = async {
            let answer = self.0.send_request(request).await.map_err(|error| error.to_string())?;
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
            let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            Ok(Reply { status, headers, body })
        };
        timeout(LIMIT, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("no answer after {LIMIT:?}")))
    }
}

/// Sends a request on a new connection.
pub(super) async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    Connection::open(address).await?.send(request).await
}
