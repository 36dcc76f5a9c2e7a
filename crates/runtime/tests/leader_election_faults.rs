//! The election code as it ships, against an API server in memory that loses, delays and refuses, in simulated time.
//!
//! Several electors run for simulated minutes. They are paused at random, their requests are lost before or after they
//! were stored, answered late or with errors. At no time may two of them act.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Router, body};
use firebolt_runtime::leader::{self, Access, ElectionStatus, Ended, LeaseClient, Loss, Remedies, Role, Timing};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

const ELECTORS: usize = 3;
const DURATION: Duration = Duration::from_secs(15);
const SIMULATED: Duration = Duration::from_mins(20);
const REMEDIES: Remedies = Remedies {
    request: |_error| "Retry.".to_owned(),
    watch: "Retry.",
};

fn lease_client(client: Client, identity: &str) -> LeaseClient {
    LeaseClient::new(client, "ns", "lease", identity, "test", Timing { duration: DURATION })
}

/// One Lease, kept as the API server keeps it.
struct Server {
    lease: Option<Lease>,
    version: u64,
    random: fastrand::Rng,
    /// A real API server does. Without it the election cannot be safe, which shows that this test can fail.
    checks_versions: bool,
    mood: Mood,
}

/// How the API server treats requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Each as the dice fall.
    Random,
    /// Answers at once.
    Kind,
    /// Refuses at once.
    Failing,
    /// Never answers.
    Silent,
    /// Knows no namespace, and therefore nothing in it.
    Empty,
}

type Shared = Arc<Mutex<Server>>;

fn lock(server: &Shared) -> std::sync::MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refusal(code: StatusCode) -> Response {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let status =
        json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason, "message": reason});
    (code, status.to_string()).into_response()
}

impl Server {
    fn new(random: fastrand::Rng, checks_versions: bool) -> Self {
        Self {
            lease: None,
            version: 0,
            random,
            checks_versions,
            mood: Mood::Random,
        }
    }

    fn answer(&mut self, method: &Method, sent: Option<Lease>) -> Response {
        match (method, sent, self.lease.clone()) {
            (&Method::GET, _, Some(stored)) => (StatusCode::OK, json!(stored).to_string()).into_response(),
            (&Method::POST, Some(_), Some(_)) => refusal(StatusCode::CONFLICT),
            (&Method::POST, Some(sent), None) => self.store(sent),
            (&Method::PUT, Some(sent), Some(stored)) => {
                let is_current = sent.metadata.resource_version == stored.metadata.resource_version;
                if is_current || !self.checks_versions {
                    self.store(sent)
                } else {
                    refusal(StatusCode::CONFLICT)
                }
            }
            _ => refusal(StatusCode::NOT_FOUND),
        }
    }

    fn store(&mut self, mut lease: Lease) -> Response {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        (StatusCode::OK, json!(lease).to_string()).into_response()
    }

    fn delay(&mut self) -> Duration {
        if self.mood != Mood::Random {
            return Duration::from_millis(1);
        }
        match self.random.u8(..) {
            0..200 => Duration::from_millis(self.random.u64(1..50)),
            200..250 => Duration::from_millis(self.random.u64(50..4000)),
            250.. => Duration::from_secs(self.random.u64(4..30)),
        }
    }
}

/// One request, with everything that can happen to it on the way.
async fn serve(State(server): State<Shared>, request: Request<body::Body>) -> Response {
    let method = request.method().clone();
    // The watch is only a hint; here the timers have to do without.
    if request.uri().path().ends_with("/leases") && method == Method::GET {
        return refusal(StatusCode::FORBIDDEN);
    }
    let bytes = body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let (before, fate, after) = {
        let mut server = lock(&server);
        let fate = match server.mood {
            Mood::Random => server.random.u8(..),
            Mood::Kind => 8,
            Mood::Failing => 0,
            Mood::Silent => 4,
            Mood::Empty => return refusal(StatusCode::NOT_FOUND),
        };
        (server.delay(), fate, server.delay())
    };
    let answer = async move {
        sleep(before).await;
        let answer = match fate {
            0..4 => refusal(StatusCode::INTERNAL_SERVER_ERROR),
            4..8 => std::future::pending().await,
            8.. => lock(&server).answer(&method, serde_json::from_slice(&bytes).ok()),
        };
        sleep(after).await;
        answer
    };
    // A request that its sender gave up on is still carried out.
    tokio::spawn(answer).await.unwrap()
}

/// Who acts right now: leads and is not paused.
type Acting = Arc<Mutex<[bool; ELECTORS]>>;

/// One process after another under the same number, each until it loses the lease or is stopped.
async fn live(number: usize, client: Client, acting: Acting, mut random: fastrand::Rng, leaderships: Arc<Mutex<u32>>) {
    loop {
        let identity = format!("{number}-{}", random.u32(..));
        let client = lease_client(client.clone(), &identity);
        let (report, reports) = watch::channel(ElectionStatus::STANDBY);
        let stop = CancellationToken::new();
        let mut election = pin!(leader::run(client, REMEDIES, report, stop.clone()));
        let stop_at = Instant::now() + Duration::from_secs(random.u64(20..400));
        let mut stop_timer = pin!(sleep_until(stop_at));
        let mut pause_at = Instant::now() + Duration::from_secs(random.u64(5..120));
        let mut pause_end = pause_at + Duration::from_millis(random.u64(100..40_000));
        let mut timer = pin!(sleep_until(pause_at));
        poll_fn(|context| {
            if timer.as_mut().poll(context).is_ready() {
                if Instant::now() < pause_end {
                    timer.as_mut().reset(pause_end);
                } else {
                    pause_at = Instant::now() + Duration::from_secs(random.u64(5..120));
                    pause_end = pause_at + Duration::from_millis(random.u64(100..40_000));
                    timer.as_mut().reset(pause_at);
                }
                context.waker().wake_by_ref();
            }
            let is_paused = (pause_at..pause_end).contains(&Instant::now());
            if is_paused {
                acting.lock().unwrap()[number] = false;
                return Poll::Pending;
            }
            if stop_timer.as_mut().poll(context).is_ready() {
                stop.cancel();
            }
            let ended = election.as_mut().poll(context);
            // Work ends before the election is asked to stop.
            let leads = ended.is_pending() && !stop.is_cancelled() && reports.borrow().role == Role::Leader;
            let acted = std::mem::replace(&mut acting.lock().unwrap()[number], leads);
            *leaderships.lock().unwrap() += u32::from(leads && !acted);
            ended
        })
        .await;
    }
}

/// Runs one simulation. Returns how often leadership began, and when two acted at once.
fn simulate(seed: u64, checks_versions: bool) -> (u32, Option<Duration>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = Arc::new(Mutex::new(Server::new(random.fork(), checks_versions)));
        let client = Client::new(Router::new().fallback(serve).with_state(Arc::clone(&server)), "ns");
        let (acting, leaderships) = (Acting::default(), Arc::new(Mutex::new(0)));
        for number in 0..ELECTORS {
            tokio::spawn(live(
                number,
                client.clone(),
                Arc::clone(&acting),
                random.fork(),
                Arc::clone(&leaderships),
            ));
        }
        let start = Instant::now();
        while start.elapsed() < SIMULATED {
            // Off the beat of everything else, so that what happens at one instant has settled.
            sleep(Duration::from_nanos(50_000_007)).await;
            if acting.lock().unwrap().iter().filter(|acts| **acts).count() > 1 {
                return (*leaderships.lock().unwrap(), Some(start.elapsed()));
            }
        }
        (*leaderships.lock().unwrap(), None)
    })
}

/// The margin between leader and candidate is large enough to hide a leader that is a little late, so this is exact.
#[tokio::test(start_paused = true)]
async fn a_leader_without_answers_stops_at_two_thirds_of_the_duration() {
    let server = Arc::new(Mutex::new(Server::new(fastrand::Rng::with_seed(1), true)));
    lock(&server).mood = Mood::Kind;
    let client = Client::new(Router::new().fallback(serve).with_state(Arc::clone(&server)), "ns");
    let client = lease_client(client, "me");
    let (report, mut reports) = watch::channel(ElectionStatus::STANDBY);
    let election = tokio::spawn(leader::run(client, REMEDIES, report, CancellationToken::new()));
    reports.wait_for(|report| report.role == Role::Leader).await.unwrap();
    let start = Instant::now();
    lock(&server).mood = Mood::Failing;
    // Late enough that the last attempt is under way when the lease expires.
    sleep(Duration::from_millis(8400)).await;
    lock(&server).mood = Mood::Silent;
    assert_eq!(election.await.unwrap(), Ended::Lost(Loss::NotRenewed));
    let took = start.elapsed();
    let late = Duration::from_millis(20);
    assert!((took..took + late).contains(&(DURATION * 2 / 3)), "{took:?}");
}

/// A missing namespace reads like a missing Lease, so reading alone proves nothing.
#[tokio::test(start_paused = true)]
async fn access_is_proven_by_taking_the_lease_or_finding_it_taken() {
    let server = Arc::new(Mutex::new(Server::new(fastrand::Rng::with_seed(1), true)));
    lock(&server).mood = Mood::Empty;
    let client = Client::new(Router::new().fallback(serve).with_state(Arc::clone(&server)), "ns");
    let start = |identity: &str| {
        let client = lease_client(client.clone(), identity);
        let (report, reports) = watch::channel(ElectionStatus::STANDBY);
        tokio::spawn(leader::run(client, REMEDIES, report, CancellationToken::new()));
        reports
    };
    let mut first = start("first");
    let unknown = first.borrow().missing().unwrap();
    assert!(unknown.contains("the lease has not been read yet"), "{unknown}");
    first.changed().await.unwrap();
    sleep(DURATION).await;
    let held_up = first.borrow().missing().unwrap();
    assert_eq!(
        held_up,
        "waiting for the leader election: cannot create lease ns/lease: namespace ns does not exist. Retry."
    );

    lock(&server).mood = Mood::Kind;
    let proven = |role| move |report: &ElectionStatus| report.role == role && report.access == Access::Proven;
    first.wait_for(proven(Role::Leader)).await.unwrap();
    let mut second = start("second");
    second.wait_for(proven(Role::Standby)).await.unwrap();
    lock(&server).mood = Mood::Failing;
    sleep(DURATION).await;
    assert_eq!(second.borrow().missing(), None, "an outage does not take it back");
}

#[test]
fn two_processes_never_lead_at_the_same_time() {
    let mut total = 0;
    for seed in 0..20 {
        let (leaderships, overlap) = simulate(seed, true);
        assert_eq!(overlap, None, "two acted at once with seed {seed}");
        assert!(
            leaderships >= 5,
            "only {leaderships} leaderships with seed {seed}: too little happened to prove anything"
        );
        total += leaderships;
    }
    println!("{total} leaderships");
}

#[test]
fn without_version_checks_two_processes_lead_at_the_same_time() {
    assert!((0..20).any(|seed| simulate(seed, false).1.is_some()));
}
