//! Pods that answer as they are told, for tests of the pool in paused time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Assignment, Hooks, Pool, Purpose, ScrapeError, Subject, Target, Transport};
use crate::key::ObjectKey;

/// How long a black hole keeps a scrape, as the deadline of the real one does.
pub(super) const BLACK_HOLE: Duration = Duration::from_secs(10);

/// How a pod answers: after a time, with a number of queries or not at all.
#[derive(Clone)]
pub(super) struct Manner(pub(super) Duration, pub(super) Result<u64, ScrapeError>);

/// A question that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) at: Duration,
    pub(super) pod: String,
}

#[derive(Default)]
struct Seen {
    subjects: HashMap<ObjectKey, Vec<Subject>>,
    manners: HashMap<String, Manner>,
    questions: Vec<Question>,
    notified: Vec<(Duration, ObjectKey)>,
    measured: Vec<(Duration, bool)>,
    under_way: usize,
    most_under_way: usize,
}

/// Pods, a clock, and all that the pool did.
#[derive(Clone)]
pub(super) struct World {
    start: Instant,
    seen: Arc<Mutex<Seen>>,
}

/// Counts a scrape for as long as it is not dropped.
struct UnderWay(World);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.with(|seen| seen.under_way -= 1);
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            seen: Arc::default(),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }

    /// Gives an engine pods that all answer in this manner. Their names are those of the engine and a number.
    pub(super) fn engine(&self, name: &str, pods: usize, manner: &Manner) -> ObjectKey {
        let pods = (0..pods).map(|number| format!("{name}-{number}"));
        let subjects = pods.map(|pod| {
            self.pod(&pod, manner);
            Subject::Ask(Target {
                namespace: "team".to_owned(),
                pod,
                ip: None,
            })
        });
        let subjects = subjects.collect();
        self.subjects(name, subjects)
    }

    pub(super) fn subjects(&self, name: &str, subjects: Vec<Subject>) -> ObjectKey {
        let key = ObjectKey::new("team", name);
        self.with(|seen| seen.subjects.insert(key.clone(), subjects));
        key
    }

    pub(super) fn pod(&self, pod: &str, manner: &Manner) {
        self.with(|seen| seen.manners.insert(pod.to_owned(), manner.clone()));
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.elapsed()
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        self.with(|seen| seen.questions.clone())
    }

    /// When each question was begun, in seconds.
    pub(super) fn asked_at(&self) -> Vec<u64> {
        self.questions().iter().map(|question| question.at.as_secs()).collect()
    }

    pub(super) fn notified(&self) -> Vec<(Duration, ObjectKey)> {
        self.with(|seen| seen.notified.clone())
    }

    pub(super) fn measured(&self) -> Vec<(Duration, bool)> {
        self.with(|seen| seen.measured.clone())
    }

    pub(super) fn under_way(&self) -> usize {
        self.with(|seen| seen.under_way)
    }

    pub(super) fn most_under_way(&self) -> usize {
        self.with(|seen| seen.most_under_way)
    }

    pub(super) fn pool(&self) -> Pool {
        let [asked, scraped, notified, measured, clock] = [(); 5].map(|()| self.clone());
        Pool::new(Hooks {
            subjects: Arc::new(move |key, _| asked.with(|seen| seen.subjects.get(key).cloned().unwrap_or_default())),
            scrape: Arc::new(move |target, _| Box::pin(scraped.clone().scrape(target))),
            notify: Arc::new(move |key| {
                let at = notified.elapsed();
                notified.with(|seen| seen.notified.push((at, key.clone())));
            }),
            measure: Arc::new(move |took, told| measured.with(|seen| seen.measured.push((took, told)))),
            now: Arc::new(move || clock.now()),
        })
    }

    async fn scrape(self, target: Target) -> Result<u64, ScrapeError> {
        let at = self.elapsed();
        let Manner(time, answer) = self.with(|seen| {
            seen.under_way += 1;
            seen.most_under_way = seen.most_under_way.max(seen.under_way);
            let pod = target.pod.clone();
            seen.questions.push(Question { at, pod });
            seen.manners[&target.pod].clone()
        });
        let _under_way = UnderWay(self);
        sleep(time).await;
        answer
    }
}

/// Answers at once.
pub(super) fn queries(count: u64) -> Manner {
    Manner(Duration::ZERO, Ok(count))
}

/// Never answers.
pub(super) fn black_hole() -> Manner {
    Manner(BLACK_HOLE, Err(ScrapeError::Deadline(BLACK_HOLE)))
}

/// Answers at once that it will not.
pub(super) fn refusing() -> Manner {
    Manner(Duration::ZERO, Err(ScrapeError::Status(500)))
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

/// Lets so much time pass, and a moment more for what is due at its end.
pub(super) async fn pass(time: Duration) {
    sleep(time + Duration::from_millis(1)).await;
}
