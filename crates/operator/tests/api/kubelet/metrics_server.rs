//! The metrics endpoint of an engine pod, served on the address of the pod, with every kind of response.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Where engines serve their metrics.
pub(crate) const PORT: u16 = 9090;
const PATH: &str = "/metrics";
const CHUNK: usize = 64 * 1024;

/// The response of a pod to a request for its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Both gauges, as an engine serves them.
    Queries {
        /// How many queries run.
        running: u32,
        /// How many queries are suspended.
        suspended: u32,
    },
    /// This status, with the gauges of an idle engine: who ignores the status is misled.
    Status(u16),
    /// A redirection to a page with the gauges of an idle engine: who follows it is misled.
    Redirect,
    /// A success without a body.
    Empty,
    /// A success with this body.
    Text(String),
    /// No answer, for as long as the client waits.
    Hang,
    /// The connection is refused.
    Refuse,
    /// The gauges of an idle engine, then comments up to this many bytes.
    Huge(usize),
}

impl Answer {
    /// No query at all.
    pub(crate) const IDLE: Self = Self::Queries {
        running: 0,
        suspended: 0,
    };
}

/// A server that ends, with all of its connections, when it is dropped.
pub(crate) struct MetricsServer {
    task: JoinHandle<()>,
}

impl MetricsServer {
    /// Serves what `ask` says at the time of each request.
    pub(crate) async fn open(address: Ipv4Addr, ask: Arc<dyn Fn() -> Answer + Send + Sync>) -> io::Result<Self> {
        let listener = TcpListener::bind((address, PORT)).await?;
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let ask = Arc::clone(&ask);
                // A client that goes away in between is none of our business.
                connections.spawn(async move { answer(stream, &*ask).await.ok() });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { task })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, ask: &(dyn Fn() -> Answer + Send + Sync)) -> io::Result<()> {
    let Some(path) = request_path(&mut stream).await? else {
        return Ok(());
    };
    if path != PATH {
        return respond(&mut stream, 200, "", &gauges(0, 0)).await;
    }
    match ask() {
        Answer::Queries { running, suspended } => respond(&mut stream, 200, "", &gauges(running, suspended)).await,
        Answer::Status(status) => respond(&mut stream, status, "", &gauges(0, 0)).await,
        Answer::Redirect => {
            let location = format!("Location: http://{}/elsewhere\r\n", stream.local_addr()?);
            respond(&mut stream, 302, &location, "").await
        }
        Answer::Empty => respond(&mut stream, 200, "", "").await,
        Answer::Text(body) => respond(&mut stream, 200, "", &body).await,
        // A server that refuses is closed; a connection from just before gets no answer either.
        Answer::Hang | Answer::Refuse => {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            Ok(())
        }
        Answer::Huge(size) => huge(&mut stream, size).await,
    }
}

/// The path of a request, once its head is complete; none if the client leaves before.
async fn request_path(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part).await? {
            0 => return Ok(None),
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    Ok(head.split(' ').nth(1).map(str::to_owned))
}

async fn respond(stream: &mut TcpStream, status: u16, headers: &str, body: &str) -> io::Result<()> {
    let head = head(status, headers, body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

async fn huge(stream: &mut TcpStream, size: usize) -> io::Result<()> {
    let gauges = gauges(0, 0);
    let mut filler = vec![b'#'; CHUNK];
    filler[CHUNK - 1] = b'\n';
    stream
        .write_all(format!("{}{gauges}", head(200, "", size)).as_bytes())
        .await?;
    let mut left = size.saturating_sub(gauges.len());
    while left > 0 {
        let now = left.min(CHUNK);
        stream.write_all(&filler[CHUNK - now..]).await?;
        left -= now;
    }
    stream.shutdown().await
}

fn head(status: u16, headers: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} Said\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n{headers}\r\n"
    )
}

fn gauges(running: u32, suspended: u32) -> String {
    format!(
        "# TYPE firebolt_running_queries gauge\nfirebolt_running_queries {running}\n\
         # TYPE firebolt_suspended_queries gauge\nfirebolt_suspended_queries {suspended}\n"
    )
}
