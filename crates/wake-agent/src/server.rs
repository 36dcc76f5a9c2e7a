//! What Envoy asks, over HTTP/1.1 or HTTP/2 with prior knowledge.
//!
//! Only what runs in the same pod can get here. It is bounded all the same: sidecars of the user run there too, and none of
//! them may take the agent away from Envoy by accident. Bodies are never read.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::desk::Desk;
use crate::metrics::Metrics;
use crate::reply;
use crate::stats::{self, Merged};
use crate::table::LARGEST_BODY;

/// Connections at a time. Envoy needs one for each of its threads, and some for metrics.
const CONNECTIONS: usize = 1024;
/// How long a client may take for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of the head of a request.
const HEADER_BYTES: u32 = 16 * 1024;
/// Requests at a time on one connection. What may wait is for the table to say, so this is only a number far beyond it.
const STREAMS: u32 = 1 << 20;
/// Requests that are taken back before we have looked at them. All clients of Envoy may leave in the same moment, and that
/// is no attack.
const TAKEN_BACK: usize = 1 << 14;
/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The format that Envoy writes.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What requests are answered from.
pub struct Agent {
    /// The table.
    pub desk: Desk,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Envoy's admin interface.
    pub envoy_admin: SocketAddr,
}

type Answered = Response<Either<Full<Bytes>, Merged>>;

/// Serves for ever.
pub async fn serve(listener: Arc<TcpListener>, agent: Arc<Agent>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                debug!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            debug!("too many connections: one is closed");
            continue;
        };
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            attend(socket, agent).await;
            drop(slot);
        });
    }
}

async fn attend(socket: TcpStream, agent: Arc<Agent>) {
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
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    let asked = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        let agent = Arc::clone(&agent);
        async move { Ok::<_, hyper::http::Error>(agent.answer(&request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
    // Until the first request is there, nobody watches how long a client takes.
    let ended = match timeout(HEADER_TIMEOUT, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_elapsed) if !asked.load(Ordering::Relaxed) => return,
        Err(_elapsed) => connection.await,
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

impl Agent {
    async fn answer(&self, request: &Request<Incoming>) -> Answered {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/hold") => self.hold(request).await,
            (&Method::GET, "/healthz") => self.health(),
            (&Method::GET, "/stats/prometheus") => self.stats(request).await,
            (_, "/hold" | "/healthz" | "/stats/prometheus") => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered here.\n")
            }
            (_, _) => plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
        }
    }

    async fn hold(&self, request: &Request<Incoming>) -> Answered {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        // Nothing is no name either.
        let engine = header("x-firebolt-engine").unwrap_or_default();
        let bytes = header("x-firebolt-bytes").and_then(|text| text.parse().ok());
        let told = self.desk.ask(engine, bytes.unwrap_or(LARGEST_BODY)).await;
        reply::respond(&told).map(|body| Either::Left(Full::from(body)))
    }

    /// A table that is stuck gives no answer, which is how Envoy finds out.
    fn health(&self) -> Answered {
        let _occupancy = self.desk.occupancy();
        plain(StatusCode::OK, "ok\n")
    }

    async fn stats(&self, request: &Request<Incoming>) -> Answered {
        let ours = self.metrics.render(self.desk.occupancy());
        let merged = stats::merged(self.envoy_admin, request.uri().query(), ours).await;
        let mut response = Response::new(Either::Right(merged));
        response.headers_mut().insert(CONTENT_TYPE, METRICS);
        response
    }
}

fn plain(status: StatusCode, text: &'static str) -> Answered {
    let mut response = Response::new(Either::Left(Full::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
