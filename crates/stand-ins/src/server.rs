//! Serves HTTP on one port, so that ending the server ends its connections as well.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A server that ends, with all of its connections, when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    task: AbortOnDropHandle<()>,
    closing: CancellationToken,
}

impl Server {
    pub(crate) fn start(listener: TcpListener, router: Router) -> Self {
        let closing = CancellationToken::new();
        let task = tokio::spawn(serve(listener, router, closing.clone()));
        Self {
            task: AbortOnDropHandle::new(task),
            closing,
        }
    }

    /// Accepts no more connections, and ends each that there is after the answer that it is at.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        // It fails only by a panic in a connection, which has been shown by then.
        let _panicked = self.task.await;
    }

    /// Ends at once, in the middle of answers.
    pub(crate) async fn abort(self) {
        self.task.abort();
        // It was cancelled, which is what was wanted.
        let _cancelled = self.task.await;
    }
}

async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => drop(connections.spawn(attend(socket, router.clone(), closing.clone()))),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn attend(socket: TcpStream, router: Router, closing: CancellationToken) {
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    // A client that disconnects early is not an error.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ended = connection.await;
        }
    }
}
