//! Requests to the Envoy beside us.
//!
//! Each has a connection of its own: there are few, the way is short, and nothing is left over from the one before.

use std::net::SocketAddr;
use std::pin::pin;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// How much of a head is read.
const HEAD: usize = 64 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The answer is not HTTP, or ended early.
    #[error("cannot speak to Envoy: {0}")]
    Broken(#[from] hyper::Error),
    /// The request cannot be written.
    #[error("cannot write a request: {0}")]
    Request(#[from] hyper::http::Error),
    /// There is more than anybody would want to know.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
}

/// An answer whose body is still to come, and the connection that brings it.
pub struct Exchange {
    /// The answer.
    pub response: Response<Incoming>,
    /// Ends with the exchange, wherever that was.
    pub connection: AbortOnDropHandle<()>,
}

/// Sends a request without a body.
pub async fn send(address: SocketAddr, method: Method, path: &str, host: &str) -> Result<Exchange, Error> {
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
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    Ok(Exchange { response, connection })
}

impl Exchange {
    /// The whole body, if it has at most `limit` bytes.
    pub async fn text(self, limit: usize) -> Result<String, Error> {
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
