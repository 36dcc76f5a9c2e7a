//! The HTTP server for Envoy, over HTTP/1.1 or HTTP/2 with prior knowledge.
//!
//! Only containers of the same pod can reach it. It has limits all the same, because sidecars of the user run in the
//! pod too, and must not be able to block the agent by accident. Request bodies are never read.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firebolt_process::http::{self, HEADER_BYTES, HEADER_TIMEOUT, WhenFull};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::hold::LARGEST_BODY;
use crate::hold_queue::HoldQueue;
use crate::merged_metrics::{self, MergedMetrics};
use crate::metrics::Metrics;
use crate::response;

/// The maximum number of connections. Envoy needs one for each of its threads, and some for metrics.
const CONNECTIONS: usize = 1024;
/// The maximum number of concurrent requests on a connection. The hold queue limits held requests; this is far above
/// its limit.
const STREAMS: u32 = 1 << 20;
/// The maximum number of streams that are reset before they were accepted. All clients of Envoy may disconnect in the
/// same moment, which is not an attack.
const PENDING_RESETS: usize = 1 << 14;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The format that Envoy uses.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What the responses depend on.
pub(crate) struct Agent {
    /// The hold queue.
    pub(crate) queue: HoldQueue,
    /// The metrics of the agent.
    pub(crate) metrics: Arc<Metrics>,
    /// Envoy's admin interface.
    pub(crate) envoy_admin: SocketAddr,
}

type HttpResponse = Response<Either<Full<Bytes>, MergedMetrics>>;

/// Serves forever.
pub(crate) async fn serve(listener: Arc<TcpListener>, agent: Arc<Agent>) {
    let handle = |socket, _never| serve_connection(socket, Arc::clone(&agent));
    // Envoy's connections are the oldest, and queries are held on them.
    let (when_full, never) = (WhenFull::RefuseNew, CancellationToken::new());
    http::accept(listener, CONNECTIONS, when_full, never, handle).await;
}

async fn serve_connection(socket: TcpStream, agent: Arc<Agent>) {
    if let Err(error) = socket.set_nodelay(true) {
        debug!(%error, "cannot set up a connection");
        return;
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    let requested = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        requested.store(true, Ordering::Relaxed);
        let agent = Arc::clone(&agent);
        async move { Ok::<_, hyper::http::Error>(agent.answer(&request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
    // No other timeout applies before the first request of a connection.
    let ended = match timeout(HEADER_TIMEOUT, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_elapsed) if !requested.load(Ordering::Relaxed) => return,
        Err(_elapsed) => connection.await,
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

impl Agent {
    async fn answer(&self, request: &Request<Incoming>) -> HttpResponse {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/hold") => self.hold(request).await,
            (&Method::GET, "/healthz") => self.health(),
            (&Method::GET, "/stats/prometheus") => self.stats(request).await,
            (_, "/hold" | "/healthz" | "/stats/prometheus") => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is supported.\n")
            }
            (_, _) => plain(StatusCode::NOT_FOUND, "Not found.\n"),
        }
    }

    async fn hold(&self, request: &Request<Incoming>) -> HttpResponse {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        // A missing name is malformed.
        let engine = header("x-firebolt-engine").unwrap_or_default();
        let bytes = header("x-firebolt-bytes").and_then(|text| text.parse().ok());
        let reply = self.queue.decide(engine, bytes.unwrap_or(LARGEST_BODY)).await;
        response::respond(&reply).map(|body| Either::Left(Full::from(body)))
    }

    /// There is no response if the hold queue hangs, which is how Envoy notices.
    fn health(&self) -> HttpResponse {
        let _occupancy = self.queue.occupancy();
        plain(StatusCode::OK, "ok\n")
    }

    async fn stats(&self, request: &Request<Incoming>) -> HttpResponse {
        let ours = self.metrics.render(self.queue.occupancy());
        let merged = merged_metrics::merged(self.envoy_admin, request.uri().query(), ours).await;
        let mut response = Response::new(Either::Right(merged));
        response.headers_mut().insert(CONTENT_TYPE, METRICS);
        response
    }
}

fn plain(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Either::Left(Full::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
