//! Scrapes the metrics of one pod, at its IP address or through the API server.
//!
//! A pod is not trusted: each scrape is bounded in time and size, and follows no redirects.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use firebolt_process::error::shortened;
use firebolt_process::user_agent;
use firebolt_runtime::error::describe;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::core::Status;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Scrape, ScrapeError, Target, Transport};

/// The port of an engine pod that serves metrics, always without TLS.
const PORT: u16 = 9090;
/// The timeout of a connection. Within a cluster it takes milliseconds; the timeout allows for two lost packets, which
/// are sent again after one second and after three.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout of a scrape. A busy engine may be slow to respond.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response. The metrics of an engine are a few dozen kilobytes.
const LARGEST_BODY: usize = 1024 * 1024;
/// The size of the read buffer, and the largest head of a response.
const BUFFER: usize = 16 * 1024;
/// The largest error response of the API server.
const LARGEST_ERROR_BODY: usize = 16 * 1024;
/// The longest message of the API server in an error, in characters.
const MESSAGE_LENGTH: usize = 200;

/// Scrapes the number of queries of pods.
#[derive(Clone)]
pub(crate) struct Scraper {
    client: Client,
    port: u16,
    connect_timeout: Duration,
    timeout: Duration,
}

impl Scraper {
    /// Uses `client` for scrapes through the API server.
    ///
    /// The client should not retry by itself (`default_retry` of its configuration): the API server responds 503 for a
    /// pod that it cannot reach, and retries until the deadline would hide that.
    #[must_use]
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            port: PORT,
            connect_timeout: CONNECT_TIMEOUT,
            timeout: TIMEOUT,
        }
    }

    /// The function that the pool calls.
    #[must_use]
    pub(crate) fn into_hook(self) -> Scrape {
        let scraper = Arc::new(self);
        Arc::new(move |target, transport| {
            let scraper = Arc::clone(&scraper);
            Box::pin(async move { scraper.queries(&target, transport).await })
        })
    }

    /// The number of queries that the pod is running or has suspended.
    pub(crate) async fn queries(&self, target: &Target, transport: Transport) -> Result<u64, ScrapeError> {
        let metrics = async {
            match transport {
                Transport::PodIp => self.at_address(target.ip.ok_or(ScrapeError::NoAddress)?).await,
                Transport::ApiserverProxy => self.through_api_server(target).await,
            }
        };
        let metrics = timeout(self.timeout, metrics)
            .await
            .map_err(|_elapsed| ScrapeError::Deadline(self.timeout))??;
        Ok(firebolt_core::activity::queries(&metrics)?)
    }

    async fn at_address(&self, ip: IpAddr) -> Result<Vec<u8>, ScrapeError> {
        let address = SocketAddr::new(ip, self.port);
        let stream = timeout(self.connect_timeout, TcpStream::connect(address))
            .await
            .map_err(|_elapsed| ScrapeError::ConnectDeadline {
                address,
                limit: self.connect_timeout,
            })?
            .map_err(|error| ScrapeError::connect(address, &error))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let request = Request::get("/metrics")
            .header(header::HOST, address.to_string())
            .header(header::CONNECTION, "close")
            .header(
                header::USER_AGENT,
                user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            )
            .body(Empty::<Bytes>::new())
            .map_err(broken)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            body_of_success(response).await
        };
        // The connection is driven here and not in a task of its own, so that nothing outlives the scrape. When it
        // ends, the rest of the response may still have to be read.
        let driven = async {
            let ended = connection.await;
            tracing::trace!(?ended, "connection to a pod ended");
            std::future::pending().await
        };
        tokio::select! {
            response = exchange => response,
            never = driven => never,
        }
    }

    async fn through_api_server(&self, target: &Target) -> Result<Vec<u8>, ScrapeError> {
        let Target { namespace, pod, ip: _ } = target;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{}/proxy/metrics", self.port);
        let request = Request::get(path)
            .body(kube::client::Body::empty())
            .map_err(|error| ScrapeError::Client(error.to_string()))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| ScrapeError::Client(shortened(&describe(&error), MESSAGE_LENGTH)))?;
        let status = response.status();
        if status == StatusCode::OK || status.is_redirection() {
            return body_of_success(response).await;
        }
        // Both the API server and the pod behind it can have sent this. Only the former sends a `Status`.
        let status_body = read(response.into_body(), LARGEST_ERROR_BODY).await.unwrap_or_default();
        let status_body = serde_json::from_slice::<Status>(&status_body).ok();
        Err(
            match status_body.filter(|status_body| status_body.code == status.as_u16()) {
                Some(_) if status == StatusCode::FORBIDDEN => ScrapeError::Forbidden(namespace.clone()),
                Some(status_body) => {
                    let message = shortened(status_body.message.trim_end_matches(['.', ' ', '\n']), MESSAGE_LENGTH);
                    ScrapeError::ApiServer(format!("{message} ({})", status_body.code))
                }
                None => ScrapeError::Status(status.as_u16()),
            },
        )
    }
}

async fn body_of_success<B>(response: Response<B>) -> Result<Vec<u8>, ScrapeError>
where
    B: Body<Data = Bytes>,
    B::Error: std::error::Error + 'static,
{
    match response.status() {
        StatusCode::OK => read(response.into_body(), LARGEST_BODY).await,
        status if status.is_redirection() => Err(ScrapeError::Redirect(status.as_u16())),
        status => Err(ScrapeError::Status(status.as_u16())),
    }
}

/// Reads a body of at most `limit` bytes.
async fn read<B>(body: B, limit: usize) -> Result<Vec<u8>, ScrapeError>
where
    B: Body<Data = Bytes>,
    B::Error: std::error::Error + 'static,
{
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > limit {
            return Err(ScrapeError::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn broken(error: impl std::error::Error + 'static) -> ScrapeError {
    ScrapeError::Broken(shortened(&firebolt_process::error::chain(&error), MESSAGE_LENGTH))
}

#[cfg(test)]
#[path = "scrape_tests.rs"]
mod tests;
