//! An engine on raw sockets, for behaviour that no proper server has.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stand_ins::engine::{QUERY_PORT, READY_PATH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::testenv::address;

/// What the engine does with each query. Health checks always succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Responds with the head of the request as the body, byte for byte.
    Echo,
    /// Responds with this status.
    Status(u16),
    /// Reads the whole query and refuses it like an engine that is shutting down.
    Drained,
    /// Refuses the query after its head, and keeps reading.
    DrainedEarly,
    /// Resets the connection once the whole query is there.
    ResetAfterRequest,
    /// Resets the connection after the first byte of the answer.
    ResetAfterFirstByte,
    /// Resets the connection in the middle of the answer's body.
    ResetInBody,
    /// Closes the connection in an orderly way once the whole query is there.
    CloseAfterRequest,
}

/// A running scripted engine. It ends when it is dropped.
pub(crate) struct Scripted {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    connections: AtomicUsize,
    queries: Mutex<Vec<Vec<u8>>>,
}

impl Scripted {
    /// Serves on the query port of a pod.
    pub(crate) async fn start(last: u8, script: Script) -> Self {
        let listener = TcpListener::bind((address(last), QUERY_PORT)).await.expect("listen");
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    let shared = Arc::clone(&shared);
                    // A client may disconnect at any time.
                    tokio::spawn(async move { attend(socket, script, &shared).await.ok() });
                }
            }
        });
        Self { shared, task }
    }

    /// The number of connections, for health checks and queries.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The heads of the queries that arrived.
    pub(crate) fn queries(&self) -> Vec<Vec<u8>> {
        self.shared.queries.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn attend(mut socket: TcpStream, script: Script, shared: &Shared) -> std::io::Result<()> {
    loop {
        let Some((head, rest)) = read_head(&mut socket).await? else {
            return Ok(());
        };
        if head.starts_with(format!("GET {READY_PATH} ").as_bytes()) {
            respond(&mut socket, "200 OK", "", b"ready").await?;
            continue;
        }
        shared.queries.lock().unwrap().push(head.clone());
        if script == Script::DrainedEarly {
            respond(&mut socket, "503 Busy", "X-Firebolt-Drained: true\r\n", b"").await?;
        }
        read_body(&mut socket, &head, rest).await?;
        match script {
            Script::Echo => respond(&mut socket, "200 OK", "", &head).await?,
            Script::Status(status) => respond(&mut socket, &format!("{status} Said"), "", b"").await?,
            Script::Drained => respond(&mut socket, "503 Busy", "X-Firebolt-Drained: true\r\n", b"").await?,
            Script::DrainedEarly => {}
            Script::ResetAfterRequest => return reset(&socket),
            Script::CloseAfterRequest => return Ok(()),
            Script::ResetAfterFirstByte => {
                socket.write_all(b"H").await?;
                return reset(&socket);
            }
            Script::ResetInBody => {
                socket
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                    .await?;
                return reset(&socket);
            }
        }
    }
}

/// Makes the next close a reset.
fn reset(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_zero_linger()
}

/// The head of a request, and what was read beyond it; nothing if the client leaves before.
async fn read_head(socket: &mut TcpStream) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok(Some((read, rest)));
        }
        if socket.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Reads the body, of which a part was read already.
async fn read_body(socket: &mut TcpStream, head: &[u8], mut body: Vec<u8>) -> std::io::Result<()> {
    let head = String::from_utf8_lossy(head).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().expect("a length"));
    let chunked = head.contains("transfer-encoding: chunked");
    while if chunked {
        !body.ends_with(b"0\r\n\r\n")
    } else {
        body.len() < length
    } {
        if socket.read_buf(&mut body).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn respond(socket: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    socket.write_all(&[head.as_bytes(), body].concat()).await
}
