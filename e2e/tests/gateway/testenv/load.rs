//! Clients that send queries without a pause, each with an identifier of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use e2e::wait::eventually;
use stand_ins::engine::{DURATION_HEADER, Engine, ID_HEADER};
use tokio::task::JoinHandle;

use crate::testenv::client::{Connection, empty, query};

/// Running clients.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Vec<Outcome>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
}

/// The outcome of a query: its identifier, and the pod that answered or the response instead.
type Outcome = (String, Result<String, String>);

impl Load {
    /// Starts this many clients of an engine. Each keeps one connection.
    pub(crate) fn start(engine: &'static str, clients: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let client = |number| tokio::spawn(run(engine, number, Arc::clone(&shared)));
        let clients = (0..clients).map(client).collect();
        Self { shared, clients }
    }

    /// The number of queries that got a response.
    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until this many more queries were answered.
    pub(crate) async fn answers(&self, more: usize) {
        let goal = self.answered() + more;
        eventually("the gateway answers", async || self.answered() >= goal).await;
    }

    /// Ends the clients after their last answers.
    pub(crate) async fn finish(self) -> Record {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut outcomes = Vec::new();
        for client in self.clients {
            outcomes.extend(client.await.expect("a client runs to its end"));
        }
        Record { outcomes }
    }
}

async fn run(engine: &str, number: usize, shared: Arc<Shared>) -> Vec<Outcome> {
    let (mut outcomes, mut connection) = (Vec::new(), Connection::open().await);
    while !shared.stop.load(Ordering::Relaxed) {
        let count = outcomes.len();
        let id = format!("{number}-{count}");
        // Some take a moment, so that queries are always in flight.
        let duration = ["0s", "2ms", "0s", "0s", "30ms"][count % 5];
        let query = query(engine).header(ID_HEADER, &id).header(DURATION_HEADER, duration);
        let outcome = match connection.send(empty(query)).await {
            Ok(reply) if reply.status == 200 => Ok(reply.answer().pod),
            Ok(reply) => Err(format!("{reply:?}")),
            Err(error) => {
                connection = Connection::open().await;
                Err(error.to_string())
            }
        };
        outcomes.push((id, outcome));
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
    outcomes
}

/// The outcomes of all queries.
pub(crate) struct Record {
    outcomes: Vec<Outcome>,
}

impl Record {
    /// How many queries there were.
    pub(crate) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Every query was answered, by the pod that executed it, and executed once.
    #[track_caller]
    pub(crate) fn assert_each_executed_once(&self, executed: &Executed) {
        let failed: Vec<_> = self.outcomes.iter().filter(|(_, outcome)| outcome.is_err()).collect();
        assert!(
            failed.is_empty(),
            "{} of {} failed: {:#?}",
            failed.len(),
            self.len(),
            &failed[..failed.len().min(5)]
        );
        for (id, outcome) in &self.outcomes {
            let pods = executed.pods.get(id).map_or(&[][..], Vec::as_slice);
            assert_eq!(
                pods,
                [outcome.clone().expect("none failed")],
                "{id} was executed elsewhere or more than once"
            );
        }
        assert_eq!(
            executed.pods.len(),
            self.len(),
            "no query was executed that was not sent"
        );
    }
}

/// The pods that executed each query, by identifier.
#[derive(Default)]
pub(crate) struct Executed {
    pods: BTreeMap<String, Vec<String>>,
}

impl Executed {
    /// Adds the queries that a pod executed, once it has no more of them.
    pub(crate) fn add(&mut self, pod: &str, engine: &Engine) {
        for id in engine.executed() {
            self.pods.entry(id).or_default().push(pod.to_owned());
        }
    }
}
