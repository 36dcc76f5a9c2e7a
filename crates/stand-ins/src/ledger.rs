//! The ledger: which pod executed which query, known after the pods are gone.
//!
//! Engines with the URL of the ledger report each query that has an identifier, once, at the beginning of its
//! execution. A query that cannot be reported is not executed. So the ledger may list one execution too many, when an
//! engine ends at the wrong moment, but never one too few.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::client::{Client, ClientError, Endpoint};
use crate::server::Server;

const PATH: &str = "/executions";
/// How long a query waits for the ledger before it is refused.
const PATIENCE: Duration = Duration::from_secs(30);

/// What ran: the pods that executed a query, by its identifier.
pub(crate) type Executions = BTreeMap<String, Vec<String>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Execution {
    query_id: String,
    pod: String,
}

/// A ledger that takes reports until it is dropped.
#[derive(Debug)]
pub struct Ledger {
    address: SocketAddr,
    executions: Arc<Mutex<Executions>>,
    _server: Server,
}

impl Ledger {
    /// Listens on an address, which engines have to reach. Port 0 leaves the choice of the port to the system.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let executions = Arc::new(Mutex::default());
        let pages = Arc::clone(&executions);
        let write_down = async move |Json(execution): Json<Execution>| {
            open(&pages).entry(execution.query_id).or_default().push(execution.pod);
            StatusCode::NO_CONTENT
        };
        Ok(Self {
            address,
            executions,
            _server: Server::start(listener, Router::new().route(PATH, post(write_down))),
        })
    }

    /// What engines have to be given as `STAND_IN_LEDGER`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What ran until now.
    #[must_use]
    pub fn executions(&self) -> Executions {
        open(&self.executions).clone()
    }
}

fn open(pages: &Mutex<Executions>) -> MutexGuard<'_, Executions> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why an execution is not in the ledger, or not for certain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("report to the ledger: no answer within {}s", PATIENCE.as_secs())]
    Silent,
    #[error("report to the ledger")]
    Failed(#[from] ClientError),
    #[error("report to the ledger: it answers {0}")]
    Refused(StatusCode),
}

/// Reports what one pod executes.
#[derive(Debug)]
pub(crate) struct Reporter {
    client: Client,
    pod: String,
}

impl Reporter {
    pub(crate) fn new(ledger: Endpoint, pod: &str) -> Self {
        Self {
            client: Client::new(ledger),
            pod: pod.to_owned(),
        }
    }

    pub(crate) async fn report(&self, query_id: &str) -> Result<(), ReportError> {
        let execution = Execution {
            query_id: query_id.to_owned(),
            pod: self.pod.clone(),
        };
        let text = serde_json::to_string(&execution).expect("two texts are JSON");
        let request = Request::post(PATH)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(text))
            .expect("a request of constants");
        let answer = timeout(PATIENCE, self.client.send(request)).await;
        match answer.map_err(|_elapsed| ReportError::Silent)?? {
            (StatusCode::NO_CONTENT, _) => Ok(()),
            (status, _) => Err(ReportError::Refused(status)),
        }
    }
}
