//! The two small servers: health and metrics.
//!
//! They are reachable by anything in the cluster network, so each connection is bounded in time and size, and their
//! number is bounded too.

mod endpoints;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use self::endpoints::{health, metrics};

/// How long a client may take to send the head of a request, and how long an idle connection stays open.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of a request's head.
const HEADER_BYTES: usize = 16 * 1024;
/// Connections served at a time; more wait in the backlog of the system.
const CONNECTIONS: usize = 64;
/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets requests that have begun come to their end.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let (socket, slot) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    let (socket, _) = listener.accept().await?;
    Ok((socket, slot))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;

    async fn start() -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = Router::new().route("/here", get(async || "yes"));
        let server = tokio::spawn(serve(listener, router, stop.clone()));
        (address, stop, server)
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A refusal may come before all was read, and then ends with a reset.
        let _reset = socket.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn known_paths_are_answered_and_others_not_found() {
        let (address, _stop, _server) = start().await;
        let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("yes"),
            "{answer}"
        );
        let answer = ask(address, "GET /there HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let (address, _stop, _server) = start().await;
        let request = format!(
            "GET /here HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "x".repeat(2 * HEADER_BYTES)
        );
        let answer = ask(address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_cut_off() {
        let (address, _stop, _server) = start().await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /here HTTP/1.1\r\n").await.unwrap();
        let closed = tokio::time::timeout(HEADER_TIMEOUT * 2, socket.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "the connection is still open");
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_hold_up_the_stop() {
        let (address, stop, server) = start().await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(socket.read(&mut [0; 1024]).await.unwrap() > 0);
        stop.cancel();
        tokio::time::timeout(HEADER_TIMEOUT / 2, server).await.unwrap().unwrap();
    }
}
