//! Takes the samples that are due, and no others.
//!
//! One loop with a schedule, and a task only for as long as a sample takes: an assignment at rest is an entry in a map,
//! and with none of them due nothing wakes up.
//!
//! # Bounds
//!
//! At most [`SAMPLES`] samples are taken at the same time, and each has one scrape of its own under way. Further scrapes
//! of a sample run on [`SHARED_PLACES`] that all samples share, and are never waited for. So engines that do not answer
//! can slow down others that have many pods, to one pod at a time, but keep none from being asked, until as many engines
//! as there are samples do not answer at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firebolt_core::plan::engine::{ActivitySample, DrainSample};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::book::{Book, Finding, Job, Moment};
use super::sample::tally;
use super::{Assignment, Hooks};
use crate::key::ObjectKey;

/// Samples at the same time. Together with the shared places well below the 1 024 open files that a process may have by
/// default.
const SAMPLES: usize = 256;
/// Scrapes at the same time beyond one for each sample.
const SHARED_PLACES: usize = 64;

/// Counts the queries of engines, each at its own pace. Clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    hooks: Hooks,
    book: Mutex<Book>,
    changed: Notify,
    samples: Semaphore,
    places: Semaphore,
}

impl Pool {
    /// A pool without assignments. Nothing is asked until [`Self::run`] runs.
    #[must_use]
    pub fn new(hooks: Hooks) -> Self {
        let shared = Arc::new(Shared {
            hooks,
            book: Mutex::default(),
            changed: Notify::new(),
            samples: Semaphore::new(SAMPLES),
            places: Semaphore::new(SHARED_PLACES),
        });
        Self { shared }
    }

    /// Says what is wanted of an engine; to be said again after each pass.
    ///
    /// The same assignment as before changes nothing. Another interval keeps the samples. Any other change forgets them
    /// and takes a first sample at once. None forgets them, and nothing is asked any more.
    pub fn assign(&self, key: &ObjectKey, assignment: Option<Assignment>) {
        self.shared.book().assign(key, assignment, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Forgets everything about an engine that is gone, its count of failures included.
    pub fn forget(&self, key: &ObjectKey) {
        self.shared.book().forget(key);
        self.shared.changed.notify_one();
    }

    /// The latest sample, if the assignment is a drain.
    ///
    /// It belongs to the engine that was last assigned under this name.
    #[must_use]
    pub fn drain_sample(&self, key: &ObjectKey) -> Option<DrainSample> {
        self.shared.book().drain_sample(key)
    }

    /// The latest sample, if the assignment is about activity.
    ///
    /// It belongs to the engine that was last assigned under this name.
    #[must_use]
    pub fn activity_sample(&self, key: &ObjectKey) -> Option<ActivitySample> {
        self.shared.book().activity_sample(key)
    }

    /// How many drain samples of the engine have failed since it was last forgotten.
    #[must_use]
    pub fn drain_failures(&self, key: &ObjectKey) -> u64 {
        self.shared.book().drain_failures(key)
    }

    /// Takes samples until `stop`, then drops those under way. To be run once.
    pub async fn run(&self, stop: CancellationToken) {
        let mut samples = JoinSet::new();
        while !stop.is_cancelled() {
            let (due, next) = {
                let mut book = self.shared.book();
                (book.start_due(Instant::now()), book.next_due())
            };
            for job in due {
                samples.spawn(Arc::clone(&self.shared).take(job));
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.shared.changed.notified() => {}
                () = until(next) => {}
                Some(done) = samples.join_next() => self.shared.finish(done),
            }
        }
        samples.shutdown().await;
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing that runs under the lock calls out, so a panic elsewhere never leaves the book half written.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one sample, unless it is called off first.
    async fn take(self: Arc<Self>, job: Job) -> (Job, Option<Finding>) {
        let finding = job.called_off.run_until_cancelled(self.sample(&job)).await;
        (job, finding)
    }

    async fn sample(&self, job: &Job) -> Finding {
        let _place = self.samples.acquire().await.expect("the semaphore is never closed");
        // The time comes first: what the sample says holds for this moment or a later one.
        let began = Moment {
            monotonic: Instant::now(),
            wall: (self.hooks.now)(),
        };
        let subjects = (self.hooks.subjects)(&job.key, &job.assignment);
        let tally = tally(subjects, job.assignment.transport, &self.hooks, &self.places).await;
        Finding { began, tally }
    }

    fn finish(&self, done: Result<(Job, Option<Finding>), JoinError>) {
        let (job, finding) = match done {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let counts = self.book().finish(&job, finding);
        if counts {
            (self.hooks.notify)(&job.key);
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
