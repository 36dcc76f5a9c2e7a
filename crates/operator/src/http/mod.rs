//! The two small servers, health and metrics, and what every server of the process has in common.
//!
//! They are reachable by anything in the cluster network, so each connection is bounded in time and size, and their
//! number is bounded too.

mod endpoints;

use std::collections::VecDeque;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

pub use self::endpoints::{health, metrics};

/// How long a client may take to send the head of a request, and how long an idle connection stays open.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may be used. A client that has more to ask opens another.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last answer on a connection may take, from the moment that no more requests are taken.
const LAST_ANSWER: Duration = Duration::from_secs(5);
/// The most that is read of a request's head.
const HEADER_BYTES: usize = 16 * 1024;
/// Connections served at a time. The oldest makes room for one more.
const CONNECTIONS: usize = 64;
/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a client may take to leave before another one is asked to.
const LEAVE_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets requests that have begun come to their end.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    serve_up_to(CONNECTIONS, listener, router, stop).await;
}

async fn serve_up_to(connections: usize, listener: TcpListener, router: Router, stop: CancellationToken) {
    let attend = |socket, stop| attend(socket, router.clone(), stop);
    serve_each(connections, listener, stop, attend).await;
}

/// Accepts connections until `stop`, so many at a time, and lets `attend` see each to its end. Where all places are taken,
/// those who have had theirs longest are asked to leave: clients that only sit there must not keep others out.
pub async fn serve_each<F>(
    connections: usize,
    listener: TcpListener,
    stop: CancellationToken,
    attend: impl Fn(TcpStream, CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(connections));
    let mut open = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                debug!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|one: &CancellationToken| !one.is_cancelled());
        let slot = tokio::select! {
            () = stop.cancelled() => break,
            slot = place(&slots, &mut open) => slot,
        };
        let end = stop.child_token();
        open.push_back(end.clone());
        let attended = attend(socket, end.clone());
        tasks.spawn(async move {
            attended.await;
            end.cancel();
            drop(slot);
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// A place for one more connection. One of those that are open, oldest first, is ended for it if there is none, and one
/// more for each moment that this takes.
async fn place(slots: &Arc<Semaphore>, open: &mut VecDeque<CancellationToken>) -> OwnedSemaphorePermit {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return slot;
    }
    loop {
        if let Some(oldest) = open.pop_front() {
            oldest.cancel();
        }
        if let Ok(slot) = timeout(LEAVE_PAUSE, Arc::clone(slots).acquire_owned()).await {
            return slot.expect("the semaphore is never closed");
        }
    }
}

async fn attend(socket: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    see_to_its_end(connection, CONNECTION_TIMEOUT, LAST_ANSWER, stop).await;
}

/// Serves one connection until its client, its time or `stop` ends it. From then on it takes no more requests, and has
/// `last` to answer those that it took.
pub async fn see_to_its_end<C: GracefulConnection<Error: Display>>(
    connection: C,
    limit: Duration,
    last: Duration,
    stop: CancellationToken,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = sleep(limit) => None,
        () = stop.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        Ok(ended)
    } else {
        connection.as_mut().graceful_shutdown();
        timeout(last, connection).await
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection ended early"),
        Err(_elapsed) => debug!("cut off a client that does not take its answers"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    async fn start() -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        start_up_to(CONNECTIONS).await
    }

    async fn start_up_to(connections: usize) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = Router::new()
            .route("/here", get(async || "yes"))
            .route("/much", get(async || "much ".repeat(1_000_000)));
        let server = tokio::spawn(serve_up_to(connections, listener, router, stop.clone()));
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
    async fn a_client_that_does_not_finish_its_request_is_cut_off() {
        let (address, _stop, _server) = start().await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /here HTTP/1.1\r\n").await.unwrap();
        let closed = timeout(HEADER_TIMEOUT * 2, socket.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "the connection is still open");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_makes_room_for_others() {
        let (address, _stop, _server) = start_up_to(1).await;
        let mut greedy = TcpStream::connect(address).await.unwrap();
        // More than all buffers on the way hold.
        let requests = "GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
        greedy.write_all(requests.as_bytes()).await.unwrap();
        // Before its first answer it could be asked to leave without having one to take.
        greedy.readable().await.unwrap();
        let start = Instant::now();
        let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = timeout(CONNECTION_TIMEOUT, answer).await;
        assert!(
            answer.is_ok_and(|answer| answer.ends_with("yes")),
            "the slot is still taken"
        );
        assert!(
            start.elapsed() >= LAST_ANSWER,
            "it had its time to take the last answer"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_idle_clients_makes_room_for_others() {
        let (address, _stop, _server) = start_up_to(2).await;
        let mut idle = Vec::new();
        for _ in 0..2 {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let request = b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n";
            socket.write_all(request).await.unwrap();
            assert!(socket.read(&mut [0; 1024]).await.unwrap() > 0);
            idle.push(socket);
        }
        let start = Instant::now();
        let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(answer.ends_with("yes"), "{answer}");
        assert!(start.elapsed() < HEADER_TIMEOUT, "they were waited for");
        assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0, "the oldest is still there");
        let again = b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n";
        idle[1].write_all(again).await.unwrap();
        assert!(
            idle[1].read(&mut [0; 1024]).await.unwrap() > 0,
            "more than one had to go"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_does_not_hold_up_the_stop_for_ever() {
        let (address, stop, server) = start().await;
        let mut greedy = TcpStream::connect(address).await.unwrap();
        let requests = "GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
        greedy.write_all(requests.as_bytes()).await.unwrap();
        greedy.readable().await.unwrap();
        stop.cancel();
        timeout(2 * LAST_ANSWER, server).await.unwrap().unwrap();
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
        timeout(HEADER_TIMEOUT / 2, server).await.unwrap().unwrap();
    }
}
