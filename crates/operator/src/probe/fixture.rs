//! Pods with scripted responses, for tests of the pool with paused time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firebolt_runtime::ObjectKey;
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Assignment, Hooks, Pool, ProbePod, Purpose, ScrapeError, Target, Transport};

/// How long the scrape of an unresponsive pod takes: the real timeout.
pub(super) const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a pod responds: after a delay, with a number of queries or an error.
#[derive(Clone)]
pub(super) struct PodBehaviour(pub(super) Duration, pub(super) Result<u64, ScrapeError>);

/// A scrape that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StartedScrape {
    pub(super) at: Duration,
    pub(super) pod: String,
}

#[derive(Default)]
struct Recorded {
    pods: HashMap<ObjectKey, Vec<ProbePod>>,
    behaviours: HashMap<String, PodBehaviour>,
    scrapes: Vec<StartedScrape>,
    notified: Vec<(Duration, ObjectKey)>,
    measured: Vec<(Duration, bool)>,
    running: usize,
    most_running: usize,
}

/// Scripted pods, a clock, and a record of what the pool did.
#[derive(Clone)]
pub(super) struct FakePods {
    start: Instant,
    recorded: Arc<Mutex<Recorded>>,
}

/// Counts a scrape for as long as it is not dropped.
struct RunningScrape(FakePods);

impl Drop for RunningScrape {
    fn drop(&mut self) {
        self.0.with(|recorded| recorded.running -= 1);
    }
}

impl FakePods {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            recorded: Arc::default(),
        }
    }

    fn with<T>(&self, access: impl FnOnce(&mut Recorded) -> T) -> T {
        access(&mut self.recorded.lock().unwrap())
    }

    /// Gives an engine pods that all behave the same. They are named after the engine, with a number.
    pub(super) fn engine(&self, name: &str, pods: usize, behaviour: &PodBehaviour) -> ObjectKey {
        let pods = (0..pods).map(|number| format!("{name}-{number}"));
        let pods = pods.map(|pod| {
            self.pod(&pod, behaviour);
            ProbePod::Scrape(Target {
                namespace: "team".to_owned(),
                pod,
                ip: None,
            })
        });
        self.engine_with(name, pods.collect())
    }

    pub(super) fn engine_with(&self, name: &str, pods: Vec<ProbePod>) -> ObjectKey {
        let key = ObjectKey::new("team", name);
        self.with(|recorded| recorded.pods.insert(key.clone(), pods));
        key
    }

    pub(super) fn pod(&self, pod: &str, behaviour: &PodBehaviour) {
        self.with(|recorded| recorded.behaviours.insert(pod.to_owned(), behaviour.clone()));
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.elapsed()
    }

    pub(super) fn scrapes(&self) -> Vec<StartedScrape> {
        self.with(|recorded| recorded.scrapes.clone())
    }

    /// When each scrape was started, in seconds.
    pub(super) fn scraped_at(&self) -> Vec<u64> {
        self.scrapes().iter().map(|scrape| scrape.at.as_secs()).collect()
    }

    pub(super) fn notified(&self) -> Vec<(Duration, ObjectKey)> {
        self.with(|recorded| recorded.notified.clone())
    }

    pub(super) fn measured(&self) -> Vec<(Duration, bool)> {
        self.with(|recorded| recorded.measured.clone())
    }

    pub(super) fn running(&self) -> usize {
        self.with(|recorded| recorded.running)
    }

    pub(super) fn most_running(&self) -> usize {
        self.with(|recorded| recorded.most_running)
    }

    pub(super) fn pool(&self) -> Pool {
        Pool::new(self.hooks())
    }

    pub(super) fn hooks(&self) -> Hooks {
        let [asked, scraped, notified, measured, clock] = [(); 5].map(|()| self.clone());
        Hooks {
            list_pods: Arc::new(move |key, _| {
                asked.with(|recorded| recorded.pods.get(key).cloned().unwrap_or_default())
            }),
            scrape: Arc::new(move |target, _| Box::pin(scraped.clone().scrape(target))),
            notify: Arc::new(move |key| {
                let at = notified.elapsed();
                notified.with(|recorded| recorded.notified.push((at, key.clone())));
            }),
            measure: Arc::new(move |took, succeeded| {
                measured.with(|recorded| recorded.measured.push((took, succeeded)));
            }),
            now: Arc::new(move || clock.now()),
        }
    }

    async fn scrape(self, target: Target) -> Result<u64, ScrapeError> {
        let at = self.elapsed();
        let PodBehaviour(time, answer) = self.with(|recorded| {
            recorded.running += 1;
            recorded.most_running = recorded.most_running.max(recorded.running);
            let pod = target.pod.clone();
            recorded.scrapes.push(StartedScrape { at, pod });
            recorded.behaviours[&target.pod].clone()
        });
        let _running = RunningScrape(self);
        sleep(time).await;
        answer
    }
}

/// Responds at once.
pub(super) fn queries(count: u64) -> PodBehaviour {
    PodBehaviour(Duration::ZERO, Ok(count))
}

/// Never responds.
pub(super) fn unresponsive() -> PodBehaviour {
    PodBehaviour(SCRAPE_TIMEOUT, Err(ScrapeError::Deadline(SCRAPE_TIMEOUT)))
}

/// Responds at once with an error.
pub(super) fn failing() -> PodBehaviour {
    PodBehaviour(Duration::ZERO, Err(ScrapeError::Status(500)))
}

pub(super) fn drain(seconds: u64) -> Assignment {
    Assignment {
        uid: "u1".to_owned(),
        purpose: Purpose::Drain,
        generation: 1,
        interval: Duration::from_secs(seconds),
        transport: Transport::PodIp,
    }
}

/// Runs the pool in the background.
pub(super) fn run(pool: &Pool) -> (CancellationToken, JoinHandle<()>) {
    let (pool, stop) = (pool.clone(), CancellationToken::new());
    let stopped = stop.clone();
    (stop, tokio::spawn(async move { pool.run(stopped).await }))
}

/// Lets this much time pass, and one millisecond for what is due at its end.
pub(super) async fn pass(time: Duration) {
    sleep(time + Duration::from_millis(1)).await;
}
