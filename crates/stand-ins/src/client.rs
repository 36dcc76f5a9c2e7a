//! A client that speaks HTTP to one server and keeps its connections.

use std::io;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri, header, uri};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// More than any answer that this crate asks for.
const ANSWER_LIMIT: usize = 1 << 20;

/// Where a server is, from a URL such as `http://10.0.0.1:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: HeaderValue,
    host: String,
    port: u16,
}

/// Why a text does not say where a server is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the address of a server: write it as in http://10.0.0.1:8080, without a path")]
pub struct EndpointError(String);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("connect to {0}")]
    Connect(String, #[source] io::Error),
    #[error("send a request")]
    Send(#[from] hyper::Error),
    #[error("read an answer")]
    Read(#[from] axum::Error),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let endpoint = || {
            let uri: Uri = text.parse().ok()?;
            let authority = uri.authority()?;
            let is_plain = uri.scheme() == Some(&uri::Scheme::HTTP)
                && matches!(uri.path_and_query().map(uri::PathAndQuery::as_str), None | Some("/"))
                && !authority.as_str().contains('@');
            let host = authority.host().trim_start_matches('[').trim_end_matches(']');
            let port = match authority.port() {
                Some(port) => port.as_u16(),
                None => 80,
            };
            (is_plain && !host.is_empty() && port != 0).then_some(Self {
                authority: HeaderValue::from_str(authority.as_str()).ok()?,
                host: host.to_owned(),
                port,
            })
        };
        endpoint().ok_or_else(|| EndpointError(text.to_owned()))
    }
}

type Sender = SendRequest<Body>;

/// A client of one server. It repeats nothing: what was sent once is answered or failed.
#[derive(Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    idle: Mutex<Vec<Sender>>,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let idle = Mutex::default();
        Self { endpoint, idle }
    }

    /// Sends on a connection that is kept from an earlier request, or else on a new one, and keeps it.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<(StatusCode, Bytes), ClientError> {
        let mut sender = self.connection().await?;
        let answer = self.exchange(&mut sender, request).await?;
        if !sender.is_closed() {
            self.idle().push(sender);
        }
        Ok(answer)
    }

    /// Sends on a new connection, and ends it.
    pub(crate) async fn send_apart(&self, request: Request<Body>) -> Result<(StatusCode, Bytes), ClientError> {
        let mut sender = self.connect().await?;
        self.exchange(&mut sender, request).await
    }

    async fn connection(&self) -> Result<Sender, ClientError> {
        loop {
            let Some(mut kept) = self.idle().pop() else {
                return self.connect().await;
            };
            // One that the server has closed fails before anything is sent on it, so that taking another repeats nothing.
            if kept.ready().await.is_ok() {
                return Ok(kept);
            }
        }
    }

    async fn connect(&self) -> Result<Sender, ClientError> {
        let Endpoint { authority, host, port } = &self.endpoint;
        let name = |error| ClientError::Connect(String::from_utf8_lossy(authority.as_bytes()).into_owned(), error);
        let socket = TcpStream::connect((host.as_str(), *port)).await.map_err(name)?;
        socket.set_nodelay(true).map_err(name)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        // It ends with its sender, and pending requests return an error.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn exchange(
        &self,
        sender: &mut Sender,
        mut request: Request<Body>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let host = self.endpoint.authority.clone();
        request.headers_mut().insert(header::HOST, host);
        let answer: Response<_> = sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, to_bytes(Body::new(answer.into_body()), ANSWER_LIMIT).await?))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://10.0.0.1:8080", "10.0.0.1", 8080)]
    #[case(
        "http://main-gateway.data.svc.cluster.local/",
        "main-gateway.data.svc.cluster.local",
        80
    )]
    #[case("http://[::1]:80", "::1", 80)]
    fn a_url_without_a_path_says_where_a_server_is(#[case] url: &str, #[case] host: &str, #[case] port: u16) {
        let endpoint: Endpoint = url.parse().expect("an endpoint");
        assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port));
    }

    #[rstest]
    #[case("10.0.0.1:8080")]
    #[case("https://10.0.0.1")]
    #[case("http://10.0.0.1/path")]
    #[case("http://10.0.0.1/?engine=a")]
    #[case("http://10.0.0.1:0")]
    #[case("http://user@10.0.0.1")]
    #[case("")]
    fn anything_else_is_refused(#[case] url: &str) {
        assert!(url.parse::<Endpoint>().is_err(), "{url}");
    }
}
