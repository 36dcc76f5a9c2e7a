//! Requests without pause: over many connections, at a steady rate.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::interval;

use crate::admission::client::{FireboltKind, Objects, eventually};
use crate::admission::manifests::{ENGINE, engine, new_replicas};
use crate::admission::testenv::AdmissionEnv;

/// Each has one to the API server of its own.
const CONNECTIONS: u32 = 16;

#[derive(Default)]
struct Tally {
    accepted: u32,
    failures: Vec<String>,
}

/// The users. They end when it is dropped.
pub(super) struct Traffic {
    tally: Arc<Mutex<Tally>>,
    users: JoinSet<()>,
    begun: Instant,
}

impl Traffic {
    /// Starts as many requests per second, for the engine [`ENGINE`], which exists, and for others. Nothing is stored.
    pub(super) async fn start(env: &AdmissionEnv, rate: u32) -> Self {
        let (tally, mut users) = (Arc::<Mutex<Tally>>::default(), JoinSet::new());
        for user in 0..CONNECTIONS {
            let client = env.cluster.client().await.unwrap();
            let objects = Objects::new(&client, &env.namespace);
            let pace = Duration::from_secs(1) * CONNECTIONS / rate;
            users.spawn(ask(objects, pace, user, Arc::clone(&tally)));
        }
        Self {
            tally,
            users,
            begun: Instant::now(),
        }
    }

    /// Waits until so many more requests were accepted.
    pub(super) async fn wait_for(&self, more: u32) {
        let enough = self.accepted() + more;
        let reached = async || (self.accepted() >= enough || !self.failures().is_empty()).then_some(());
        eventually("requests are accepted", reached).await;
    }

    /// Ends it, fails if any request did, and returns how many were accepted and how many per second.
    pub(super) async fn end(mut self) -> (u32, f64) {
        let took = self.begun.elapsed();
        self.users.shutdown().await;
        let failures = self.failures();
        assert!(failures.is_empty(), "{} failures: {failures:#?}", failures.len());
        assert!(self.accepted() > 0);
        (self.accepted(), f64::from(self.accepted()) / took.as_secs_f64())
    }

    fn accepted(&self) -> u32 {
        self.tally.lock().unwrap().accepted
    }

    fn failures(&self) -> Vec<String> {
        self.tally.lock().unwrap().failures.clone()
    }
}

async fn ask(objects: Objects, pace: Duration, user: u32, tally: Arc<Mutex<Tally>>) {
    let another = engine(&format!("another-{user}"));
    // A late client sends sooner, so that the rate is kept.
    let mut ticks = interval(pace);
    for count in 0.. {
        ticks.tick().await;
        let answer = if count % 2 == 0 {
            objects.dry_run(&another).await
        } else {
            let edit = new_replicas(2 + count % 50);
            objects.dry_run_edit(FireboltKind::Engine, ENGINE, &edit).await
        };
        let mut tally = tally.lock().unwrap();
        match answer {
            Ok(_) => tally.accepted += 1,
            Err(refusal) => tally.failures.push(refusal.message),
        }
    }
}
