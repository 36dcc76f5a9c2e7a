//! HTTP serving with limits on the number of connections, on their duration and on the size of request heads.
//!
//! Anything in the network of the pod or of the cluster may reach a server, so no client may occupy it for ever.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

/// How long a client may take to send the head of a request, and how long an idle HTTP/1.1 connection stays open.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of the head of a request.
pub const HEADER_BYTES: u32 = 16 * 1024;
/// How long a connection of [`serve`] may be used. A client that has more requests opens another one.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last response on a connection of [`serve`] may take after the connection stopped accepting requests.
const LAST_RESPONSE: Duration = Duration::from_secs(5);
/// How many connections [`serve`] handles at a time.
const CONNECTIONS: usize = 64;
/// The pause after a failed accept, which is most likely caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take to close before the next oldest is closed too.
const CLOSE_PAUSE: Duration = Duration::from_millis(50);

/// What happens to a new connection if the maximum number is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest connection is closed: idle clients cannot lock out others.
    CloseOldest,
    /// The new connection is closed: those that are open may be waiting for a response.
    RefuseNew,
}

/// Serves HTTP/1.1 until `stop`, then completes the requests that were accepted. Meant for small endpoints such as health and
/// metrics.
pub async fn serve<S>(listener: TcpListener, service: S, stop: CancellationToken)
where
    S: HttpService<Incoming> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::ResBody: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    serve_up_to(CONNECTIONS, listener, service, stop).await;
}

async fn serve_up_to<S>(connections: usize, listener: TcpListener, service: S, stop: CancellationToken)
where
    S: HttpService<Incoming> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::ResBody: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let handle = |socket, stop| {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES as usize)
            .serve_connection(TokioIo::new(socket), service.clone());
        serve_connection(connection, CONNECTION_TIMEOUT, LAST_RESPONSE, stop)
    };
    accept(listener, connections, WhenFull::CloseOldest, stop, handle).await;
}

/// Accepts connections until `stop` and runs `handle` for each, for at most `connections` at a time. Afterwards waits for
/// those that are open: the token that `handle` receives tells it to finish.
pub async fn accept<F>(
    listener: impl Borrow<TcpListener>,
    connections: usize,
    when_full: WhenFull,
    stop: CancellationToken,
    handle: impl Fn(TcpStream, CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(connections));
    let mut open = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.borrow().accept() => accepted,
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
        let slot = match (Arc::clone(&slots).try_acquire_owned(), when_full) {
            (Ok(slot), _) => slot,
            (Err(_), WhenFull::RefuseNew) => {
                debug!("refused a connection: the maximum number of connections is open");
                continue;
            }
            (Err(_), WhenFull::CloseOldest) => tokio::select! {
                () = stop.cancelled() => break,
                slot = close_oldest(&slots, &mut open) => slot,
            },
        };
        let end = stop.child_token();
        open.push_back(end.clone());
        let handled = handle(socket, end.clone());
        tasks.spawn(async move {
            // After a panic too.
            let _end = end.drop_guard();
            handled.await;
            drop(slot);
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Closes connections, oldest first, until there is a slot. One that takes long to close does not save the others.
async fn close_oldest(slots: &Arc<Semaphore>, open: &mut VecDeque<CancellationToken>) -> OwnedSemaphorePermit {
    loop {
        if let Some(oldest) = open.pop_front() {
            oldest.cancel();
        }
        if let Ok(slot) = timeout(CLOSE_PAUSE, Arc::clone(slots).acquire_owned()).await {
            return slot.expect("the semaphore is never closed");
        }
    }
}

/// Serves one connection until its client closes it, `limit` has passed, or `stop` is cancelled. Afterwards it accepts no
/// more requests, and has `last_response` to complete those that it accepted.
pub async fn serve_connection<C: GracefulConnection<Error: Display>>(
    connection: C,
    limit: Duration,
    last_response: Duration,
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
        timeout(last_response, connection).await
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection ended early"),
        Err(_elapsed) => debug!("closed a connection whose client does not read its responses"),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
