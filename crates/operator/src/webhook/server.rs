//! The server of the webhook: TLS 1.3 and 1.2, HTTP/2 and HTTP/1.1.
//!
//! Any client in the cluster network can reach it, so each connection is bounded in time and size, and the number of
//! connections is bounded too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use firebolt_process::http::{self, HEADER_BYTES, WhenFull};
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

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of reading the headers of a request, and of an idle HTTP/1.1 connection. It is longer than the idle timeout of
/// the API server, so that no connection is closed while a request is on its way.
const HEADER_TIMEOUT: Duration = Duration::from_secs(100);
/// Lifetime of a connection, after which the client has to open another: so that connections spread over new replicas.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(5);
/// Grace period for the last responses on a connection that accepts no more requests.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// Interval and timeout of HTTP/2 keep-alive pings.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
/// The ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";
/// Limit on connections. A new connection beyond it closes the oldest.
const CONNECTIONS: usize = 256;
/// Limit on concurrent requests of one HTTP/2 connection. The API server opens one connection per address.
const STREAMS: u32 = 250;
/// HTTP/2 flow-control windows of one request, and of a whole connection.
const WINDOWS: (u32, u32) = (64 * 1024, 256 * 1024);

/// The TLS configuration. The certificate is resolved for each connection, so that it can be replaced.
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

/// Serves until `stop`, then completes the requests in flight.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, router: Router, stop: CancellationToken) {
    let serve = |socket, stop| serve_connection(socket, Arc::clone(&tls), router.clone(), stop);
    http::accept(listener, CONNECTIONS, WhenFull::CloseOldest, stop, serve).await;
}

async fn serve_connection(socket: TcpStream, tls: Arc<ServerConfig>, router: Router, stop: CancellationToken) {
    // Responses are small and must not be delayed. Best effort.
    let _ignored = socket.set_nodelay(true);
    let handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(socket));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = stop.cancelled() => return,
    };
    let stream = match handshake.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%error, "TLS handshake failed");
            return;
        }
    };
    let service = TowerToHyperService::new(router);
    // The protocol is the one negotiated by ALPN, never guessed from the first bytes.
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
        http::serve_connection(connection, CONNECTION_TIMEOUT, GRACE_PERIOD, stop).await;
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES as usize)
            .serve_connection(TokioIo::new(stream), service);
        http::serve_connection(connection, CONNECTION_TIMEOUT, GRACE_PERIOD, stop).await;
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
