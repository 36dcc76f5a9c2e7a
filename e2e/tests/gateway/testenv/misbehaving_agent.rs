//! Agents that misbehave. Proper behaviour is tested with the real agent.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::future::{Either, pending, select};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where Envoy expects its agent.
const AGENT: &str = "127.0.0.1:9902";
/// The header with the agent's decision.
const DECISION: &str = "x-firebolt-wake";

/// What an agent does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misbehavior {
    /// Holds every request, and is healthy.
    Forgetful,
    /// Responds without a decision.
    Undecided,
    /// Responds with an unknown decision.
    Unknown,
    /// Responds that every engine is ready.
    Agreeable,
    /// Refuses with the status of a success.
    RefusingWell,
    /// Refuses without a body.
    RefusingSilently,
    /// Refuses with a body of ten mebibytes.
    RefusingAtLength,
    /// Resets requests.
    Resetting,
}

/// The requests from Envoy.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A running agent. It ends when it is dropped.
pub(crate) struct MisbehavingAgent {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    misbehavior: Misbehavior,
    questions: Mutex<Vec<Question>>,
    stopped: watch::Sender<bool>,
}

impl MisbehavingAgent {
    /// Starts the agent. If it is started before the gateway, it gets the first query.
    pub(crate) async fn start(misbehavior: Misbehavior) -> Self {
        let listener = TcpListener::bind(AGENT).await.expect("listen");
        let shared = Arc::new(Shared {
            misbehavior,
            questions: Mutex::default(),
            stopped: watch::Sender::new(false),
        });
        let task = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    tokio::spawn(serve(socket, Arc::clone(&shared)));
                }
            }
        });
        Self { shared, task }
    }

    /// Makes it hang like a stopped process: its connections stay open.
    pub(crate) fn stop(&self) {
        self.shared.stopped.send_replace(true);
    }

    /// The requests about engines so far.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.shared.questions.lock().unwrap().clone()
    }
}

impl Drop for MisbehavingAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let mut stopped = shared.stopped.subscribe();
    let answer = service_fn(move |request| answer(request, Arc::clone(&shared)));
    let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), answer);
    let stop = pin!(async { stopped.wait_for(|stopped| *stopped).await.is_ok() });
    if let Either::Right((true, connection)) = select(connection, stop).await {
        pending::<()>().await;
        drop(connection);
    }
}

/// An error resets the stream.
async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let is_question = head.uri.path() == "/hold";
    if is_question {
        let body = body.collect().await.map_err(|_| "the question ends early")?.to_bytes();
        shared.questions.lock().unwrap().push(Question {
            target: head.uri.to_string(),
            headers: head.headers,
            body,
        });
    }
    let answer = |status: u16, decision: Option<&str>, words: usize| {
        let mut answer = Response::builder().status(status);
        if let Some(decision) = decision {
            answer = answer.header(DECISION, decision);
        }
        Ok(answer.body(Full::new(vec![b'a'; words].into())).expect("an answer"))
    };
    if !is_question {
        return answer(200, None, 2);
    }
    match shared.misbehavior {
        Misbehavior::Forgetful => pending().await,
        Misbehavior::Undecided => answer(200, None, 10),
        Misbehavior::Unknown => answer(200, Some("what?\"}"), 0),
        Misbehavior::Agreeable => answer(200, Some("ready"), 0),
        Misbehavior::RefusingWell => answer(200, Some("refused"), 10),
        Misbehavior::RefusingSilently => answer(503, Some("refused"), 0),
        Misbehavior::RefusingAtLength => answer(503, Some("refused"), 10 * 1024 * 1024),
        Misbehavior::Resetting => Err("no answer"),
    }
}

/// A server at the agent's address that does not speak HTTP/2. It runs until the test ends.
pub(crate) async fn noise(words: Option<&'static [u8]>) {
    let listener = TcpListener::bind(AGENT).await.expect("listen");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            match words {
                None => kept.push(socket),
                Some(words) => {
                    let _gone = socket.write_all(words).await;
                }
            }
        }
        Ok::<(), Infallible>(())
    });
}
