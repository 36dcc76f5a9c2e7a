//! The server of the webhook: TLS 1.3 and 1.2, HTTP/2 and HTTP/1.1.
//!
//! It is reachable by anything in the cluster network, so each connection is bounded in time and size, and their number
//! is bounded too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::http;

/// How long a client may take to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to send the head of a request, and how long an idle HTTP/1.1 connection stays open: longer
/// than the API server keeps one, so that it is never closed under a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(100);
/// How long a connection may be used before its client is asked to open another: so that they spread over new replicas.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(5);
/// How long the last answers on a connection may take, from the moment that no more requests are taken.
const LAST_ANSWER: Duration = Duration::from_secs(10);
/// How often a silent HTTP/2 client is asked whether it is still there, and how long it may take to say so.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
/// The most that is read of a request's head.
const HEADER_BYTES: u32 = 16 * 1024;
/// HTTP/2 by the name that clients and servers agree on.
const HTTP2: &[u8] = b"h2";
/// Connections served at a time. The oldest makes room for one more.
const CONNECTIONS: usize = 256;
/// Requests at a time on one HTTP/2 connection. The API server has one connection per address of ours.
const STREAMS: u32 = 250;
/// What an HTTP/2 client may send of one request, and of all on its connection, before somebody reads it.
const WINDOWS: (u32, u32) = (64 * 1024, 256 * 1024);

/// How the server proves who it is. Certificates are looked up for each connection, so that they can change.
#[must_use]
pub fn tls(certificates: Arc<dyn ResolvesServerCert>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("the provider knows both versions")
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Serves until `stop`, then lets requests that have begun come to their end.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, router: Router, stop: CancellationToken) {
    let attend = |socket, stop| attend(socket, Arc::clone(&tls), router.clone(), stop);
    http::serve_each(CONNECTIONS, listener, stop, attend).await;
}

async fn attend(socket: TcpStream, tls: Arc<ServerConfig>, router: Router, stop: CancellationToken) {
    // Answers are small, and somebody waits for each. Best effort.
    let _slower = socket.set_nodelay(true);
    let greeting = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(socket));
    let greeting = tokio::select! {
        greeting = greeting => greeting,
        () = stop.cancelled() => return,
    };
    let stream = match greeting.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%error, "a client did not agree on keys");
            return;
        }
    };
    let service = TowerToHyperService::new(router);
    // What was agreed on with the keys; nothing is left to be guessed from what the client sends, or does not.
    if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(HEADER_BYTES)
            .keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .serve_connection(TokioIo::new(stream), service);
        http::see_to_its_end(connection, CONNECTION_TIMEOUT, LAST_ANSWER, stop).await;
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES as usize)
            .serve_connection(TokioIo::new(stream), service);
        http::see_to_its_end(connection, CONNECTION_TIMEOUT, LAST_ANSWER, stop).await;
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
