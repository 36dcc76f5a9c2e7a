//! The clients, and what they count while they run.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use firebolt_process::error::chain;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::report::{Failure, Report};
use crate::client::{Client, Endpoint};
use crate::engine::DURATION_HEADER;

/// The header by which the gateway selects an engine.
const SELECTOR: &str = "x-firebolt-engine";
/// Of so many queries of a client, one has a connection of its own. The others share one that is kept.
const QUERIES_PER_NEW_CONNECTION: usize = 4;
/// How long a query may take. Gateways hold a query for a stopped engine for up to two minutes.
const PATIENCE: Duration = Duration::from_mins(5);
/// How much of an answer is kept when it is not what it should be.
const REASON_LIMIT: usize = 300;

/// What the clients do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many clients there are. Each has one query at a time.
    pub clients: u32,
    /// The time from the beginning of one query of a client to the next. An answer that takes longer is waited for.
    pub pause: Duration,
    /// How long queries run.
    pub duration: Duration,
}

impl Default for Settings {
    /// Eight clients that send without a pause what is answered at once.
    fn default() -> Self {
        Self {
            clients: 8,
            pause: Duration::ZERO,
            duration: Duration::ZERO,
        }
    }
}

/// How many queries there are until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Those that were sent.
    pub sent: usize,
    /// Those that were answered with 200.
    pub answered: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that are neither answered nor failed.
    pub in_flight: usize,
}

/// Running clients. They end in the middle of their queries when they are dropped.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<Report>,
}

#[derive(Debug)]
struct Shared {
    /// Tells the queries of this load from those of another in the same ledger.
    name: String,
    gateway: Endpoint,
    engine: String,
    settings: Settings,
    counts: watch::Sender<Counts>,
    stopping: CancellationToken,
}

impl Load {
    /// Lets clients query an engine through a gateway.
    ///
    /// It has to be called on a tokio runtime.
    #[must_use]
    pub fn start(gateway: Endpoint, engine: &str, settings: Settings) -> Self {
        let shared = Arc::new(Shared {
            // Each state is seeded at random.
            name: format!("{:08x}", RandomState::new().hash_one(()) >> 32),
            gateway,
            engine: engine.to_owned(),
            settings,
            counts: watch::Sender::default(),
            stopping: CancellationToken::new(),
        });
        let clients = (0..shared.settings.clients).map(|number| run(Arc::clone(&shared), number));
        let clients = clients.collect();
        Self { shared, clients }
    }

    /// How many queries there are until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until this many more queries were answered or failed.
    pub async fn answers(&self, more: usize) {
        let done = |counts: &Counts| counts.answered + counts.failed;
        let goal = done(&self.counts()) + more;
        self.until(|counts| done(counts) >= goal).await;
    }

    /// Waits until the counts are as asked for, and returns them.
    ///
    /// # Panics
    ///
    /// If that takes longer than a query may take.
    pub async fn until(&self, holds: impl FnMut(&Counts) -> bool) -> Counts {
        let mut counts = self.shared.counts.subscribe();
        let Ok(reached) = timeout(PATIENCE, counts.wait_for(holds)).await else {
            panic!("not within {PATIENCE:?}: the counts are {:?}", self.counts());
        };
        *reached.expect("the sender lives as long as the load")
    }

    /// Ends the clients after their last answers.
    pub async fn stop(self) -> Report {
        self.shared.stopping.cancel();
        Report::merged(self.clients.join_all().await)
    }
}

async fn run(shared: Arc<Shared>, number: u32) -> Report {
    let Settings { clients, pause, .. } = shared.settings;
    let client = Client::new(shared.gateway.clone());
    let mut report = Report::default();
    // The clients begin one after the other, so that what they send is spread over the time.
    let mut next = Instant::now() + pause / clients * number;
    for count in 0_usize.. {
        tokio::select! {
            // The first, so that clients without a pause end as well.
            biased;
            () = shared.stopping.cancelled() => break,
            () = sleep_until(next) => {}
        }
        next = Instant::now() + pause;
        let id = format!("{}-{number}-{count}", shared.name);
        let apart = count % QUERIES_PER_NEW_CONNECTION == QUERIES_PER_NEW_CONNECTION - 1;
        shared.counts.send_modify(|counts| {
            counts.sent += 1;
            counts.in_flight += 1;
        });
        let begin = Instant::now();
        let outcome = query(&shared, &client, &id, apart).await;
        shared.counts.send_modify(|counts| {
            counts.in_flight -= 1;
            match outcome {
                Ok(()) => counts.answered += 1,
                Err(_) => counts.failed += 1,
            }
        });
        match outcome {
            Ok(()) => report.answer(id, begin.elapsed()),
            Err(reason) => report.failures.push(Failure { id, reason }),
        }
    }
    report
}

/// Sends one query, and returns what went wrong if it was not answered well.
async fn query(shared: &Shared, client: &Client, id: &str, apart: bool) -> Result<(), String> {
    let mut request = Request::post("/").header(SELECTOR, &shared.engine);
    if !shared.settings.duration.is_zero() {
        request = request.header(DURATION_HEADER, format!("{}us", shared.settings.duration.as_micros()));
    }
    let statement = format!("INSERT INTO load VALUES ('{id}')");
    let request = request.body(Body::from(statement)).map_err(|error| error.to_string())?;
    let answer = async {
        if apart {
            client.send_apart(request).await
        } else {
            client.send(request).await
        }
    };
    match timeout(PATIENCE, answer).await {
        Err(_elapsed) => Err(format!("no answer within {}s", PATIENCE.as_secs())),
        Ok(Err(error)) => Err(chain(&error)),
        Ok(Ok((StatusCode::OK, _))) => Ok(()),
        Ok(Ok((status, body))) => {
            let body = String::from_utf8_lossy(&body[..body.len().min(REASON_LIMIT)]);
            Err(format!("status {}: {}", status.as_u16(), body.trim_end()))
        }
    }
}
