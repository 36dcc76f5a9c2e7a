//! Requests to the Envoy in the same pod.
//!
//! Each request has its own connection: there are few of them, and no state is left over from an earlier one.

use std::net::SocketAddr;
use std::pin::pin;

use firebolt_process::user_agent;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// The maximum size of a response head.
const HEAD: usize = 64 * 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The connection failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The response is not HTTP, or ended early.
    #[error("cannot read the response of Envoy: {0}")]
    Violation(#[from] hyper::Error),
    /// The request is not valid.
    #[error("cannot build the request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The response is too large.
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
}

/// A response whose body has not been read, and its connection.
pub(crate) struct Exchange {
    /// The response.
    pub(crate) response: Response<Incoming>,
    /// Closed when the exchange is dropped.
    pub(crate) connection: AbortOnDropHandle<()>,
}

/// Sends a request without a body.
pub(crate) async fn send(address: SocketAddr, method: Method, path: &str, host: &str) -> Result<Exchange, Error> {
    let connect = |source| Error::Connect { address, source };
    let stream = TcpStream::connect(address).await.map_err(connect)?;
    stream.set_nodelay(true).map_err(connect)?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD)
        .handshake(TokioIo::new(stream))
        .await?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::trace!(%error, "a connection to Envoy ended early");
        }
    }));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(CONNECTION, "close")
        .header(
            USER_AGENT,
            user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    Ok(Exchange { response, connection })
}

impl Exchange {
    /// The whole body, if it has at most `limit` bytes.
    pub(crate) async fn text(self, limit: usize) -> Result<String, Error> {
        let mut body = pin!(self.response.into_body());
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(Error::TooLarge(limit));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
