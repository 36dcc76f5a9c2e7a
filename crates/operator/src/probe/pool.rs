//! Takes the samples that are due.
//!
//! One loop with a schedule, and a task for each running sample: an idle assignment is an entry in a map and costs no
//! wake-ups.
//!
//! # Bounds
//!
//! At most [`SAMPLES`] samples run at the same time, each with one scrape of its own. Further scrapes of a sample run
//! on [`SHARED_PERMITS`] that all samples share, and are never waited for. So engines that do not respond can slow down
//! others with many pods, to one pod at a time, but block none, unless as many engines as there are samples do not
//! respond.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firebolt_core::plan::engine::{ActivitySample, DrainSample};
use firebolt_runtime::ObjectKey;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error_span};

use super::sample::sum_over_pods;
use super::schedule::{Moment, SampleJob, SampleResult, Schedule};
use super::{Assignment, Hooks};

/// Samples at the same time. Together with the shared permits well below the 1 024 open files that a process may have
/// by default.
const SAMPLES: usize = 256;
/// Scrapes at the same time beyond one for each sample.
const SHARED_PERMITS: usize = 64;

/// Counts the queries of engines, each at its own pace. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<PoolState>,
}

struct PoolState {
    hooks: Hooks,
    schedule: Mutex<Schedule>,
    changed: Notify,
    samples: Semaphore,
    permits: Semaphore,
}

impl Pool {
    /// A pool without assignments. Nothing is scraped until [`Self::run`] runs.
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        let shared = Arc::new(PoolState {
            hooks,
            schedule: Mutex::default(),
            changed: Notify::new(),
            samples: Semaphore::new(SAMPLES),
            permits: Semaphore::new(SHARED_PERMITS),
        });
        Self { shared }
    }

    /// Sets the assignment of an engine, after each reconcile.
    ///
    /// The same assignment as before changes nothing. Another interval keeps the samples. Any other change drops them
    /// and takes a first sample at once. None drops them and stops the probes.
    pub(crate) fn assign(&self, key: &ObjectKey, assignment: Option<Assignment>) {
        self.shared.schedule().assign(key, assignment, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Forgets everything about an engine that is gone, its count of failures included.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.shared.schedule().forget(key);
        self.shared.changed.notify_one();
    }

    /// The latest sample, if the assignment is a drain.
    ///
    /// It belongs to the engine that was last assigned under this name.
    #[must_use]
    pub(crate) fn drain_sample(&self, key: &ObjectKey) -> Option<DrainSample> {
        self.shared.schedule().drain_sample(key)
    }

    /// The latest sample, if the assignment is about activity.
    ///
    /// It belongs to the engine that was last assigned under this name.
    #[must_use]
    pub(crate) fn activity_sample(&self, key: &ObjectKey) -> Option<ActivitySample> {
        self.shared.schedule().activity_sample(key)
    }

    /// How many drain samples of the engine have failed since it was last forgotten.
    #[must_use]
    pub(crate) fn drain_failures(&self, key: &ObjectKey) -> u64 {
        self.shared.schedule().drain_failures(key)
    }

    /// Takes samples until `stop`, then drops those under way. To be run once.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut samples = JoinSet::new();
        while !stop.is_cancelled() {
            let (due, next) = {
                let mut schedule = self.shared.schedule();
                (schedule.start_due(Instant::now()), schedule.next_due())
            };
            for job in due {
                let ObjectKey { namespace, name } = &job.key;
                let span = error_span!("probe", kind = "FireboltEngine", namespace, name);
                samples.spawn(Arc::clone(&self.shared).take(job).instrument(span));
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

impl PoolState {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // No hook is called with the lock held, so a panic elsewhere never leaves the schedule half written.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one sample, unless it is cancelled first.
    async fn take(self: Arc<Self>, job: SampleJob) -> (SampleJob, Option<SampleResult>) {
        let result = job.cancelled.run_until_cancelled(self.sample(&job)).await;
        (job, result)
    }

    async fn sample(&self, job: &SampleJob) -> SampleResult {
        let _permit = self.samples.acquire().await.expect("the semaphore is never closed");
        // The time comes first: the sample is valid for this time or a later one.
        let began = Moment {
            monotonic: Instant::now(),
            wall: (self.hooks.now)(),
        };
        let pods = (self.hooks.list_pods)(&job.key, &job.assignment);
        let total = sum_over_pods(pods, job.assignment.transport, &self.hooks, &self.permits).await;
        SampleResult { began, total }
    }

    fn finish(&self, done: Result<(SampleJob, Option<SampleResult>), JoinError>) {
        let (job, result) = match done {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let counts = self.schedule().finish(&job, result);
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
