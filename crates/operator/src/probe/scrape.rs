//! Asks one pod for its metrics, at its own address or through the API server.
//!
//! A pod is not trusted: each scrape is bounded in time and size, and goes nowhere but to the address it was given.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

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
use crate::error::{describe, shortened};

/// The port of an engine pod that serves metrics, always without TLS.
const PORT: u16 = 9090;
/// How long a connection may take. Within a cluster this is a matter of milliseconds; the time leaves room for a lost
/// packet or two, which are sent again after one second and after three.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long a scrape may take as a whole. A busy engine may be slow to answer; one that needs longer than this is not
/// going to.
const LIMIT: Duration = Duration::from_secs(10);
/// The most that is read of an answer. The metrics of an engine are a few dozen kilobytes.
const LARGEST_BODY: usize = 1024 * 1024;
/// The most that is read at once, and the largest head of an answer.
const BUFFER: usize = 16 * 1024;
/// The most that is read of an answer of the API server that is not a success.
const LARGEST_REFUSAL: usize = 16 * 1024;
/// How much of a text of the API server is told.
const REFUSAL_LENGTH: usize = 200;

/// Asks pods how many queries they have.
#[derive(Clone)]
pub struct Scraper {
    client: Client,
    port: u16,
    connect_limit: Duration,
    limit: Duration,
}

impl Scraper {
    /// Uses `client` for what goes through the API server.
    ///
    /// The client should not try again by itself (`default_retry` of its configuration): the API server answers 503 for a
    /// pod that it cannot reach, and attempts to the end of the deadline would hide that.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            port: PORT,
            connect_limit: CONNECT_LIMIT,
            limit: LIMIT,
        }
    }

    /// As the pool takes it.
    #[must_use]
    pub fn into_hook(self) -> Scrape {
        let scraper = Arc::new(self);
        Arc::new(move |target, transport| {
            let scraper = Arc::clone(&scraper);
            Box::pin(async move { scraper.queries(&target, transport).await })
        })
    }

    /// The number of queries that the pod is running or has suspended.
    pub async fn queries(&self, target: &Target, transport: Transport) -> Result<u64, ScrapeError> {
        let metrics = async {
            match transport {
                Transport::PodIp => self.at_address(target.ip.ok_or(ScrapeError::NoAddress)?).await,
                Transport::ApiserverProxy => self.through_api_server(target).await,
            }
        };
        let metrics = timeout(self.limit, metrics)
            .await
            .map_err(|_elapsed| ScrapeError::Deadline(self.limit))??;
        Ok(firebolt_core::activity::queries(&metrics)?)
    }

    async fn at_address(&self, ip: IpAddr) -> Result<Vec<u8>, ScrapeError> {
        let address = SocketAddr::new(ip, self.port);
        let stream = timeout(self.connect_limit, TcpStream::connect(address))
            .await
            .map_err(|_elapsed| ScrapeError::ConnectDeadline {
                address,
                limit: self.connect_limit,
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
            .body(Empty::<Bytes>::new())
            .map_err(broken)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            body_of_success(response).await
        };
        // The connection is driven here and not by a task of its own, so that nothing outlives the scrape. When it ends,
        // the last of the answer may still have to be taken out of it.
        let driven = async {
            let ended = connection.await;
            tracing::trace!(?ended, "connection to a pod ended");
            std::future::pending().await
        };
        tokio::select! {
            answer = exchange => answer,
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
            .map_err(|error| ScrapeError::Client(shortened(&describe(&error), REFUSAL_LENGTH)))?;
        let status = response.status();
        if status == StatusCode::OK || status.is_redirection() {
            return body_of_success(response).await;
        }
        // Both the API server and, passed on by it, the pod can have said this. Only the former speaks in `Status`.
        let refusal = read(response.into_body(), LARGEST_REFUSAL).await.unwrap_or_default();
        let refusal = serde_json::from_slice::<Status>(&refusal).ok();
        Err(match refusal.filter(|refusal| refusal.code == status.as_u16()) {
            Some(_) if status == StatusCode::FORBIDDEN => ScrapeError::Forbidden(namespace.clone()),
            Some(refusal) => {
                let message = shortened(refusal.message.trim_end_matches(['.', ' ', '\n']), REFUSAL_LENGTH);
                ScrapeError::ApiServer(format!("{message} ({})", refusal.code))
            }
            None => ScrapeError::Status(status.as_u16()),
        })
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

/// All of a body, if it has at most `limit` bytes. What comes after them is not read.
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
    ScrapeError::Broken(shortened(&crate::error::chain(&error), REFUSAL_LENGTH))
}

#[cfg(test)]
#[path = "scrape_tests.rs"]
mod tests;
