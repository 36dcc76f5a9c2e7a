//! The assignments, when their next samples are due, and their latest results. No I/O, no clock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use firebolt_core::plan::engine::{Activity, ActivitySample, Drain, DrainSample};
use firebolt_runtime::ObjectKey;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Assignment, Purpose};

/// The minimum interval, whatever the settings of the engine are.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum interval, which keeps sums of times in range.
const MAX_INTERVAL: Duration = Duration::from_hours(24 * 365);

/// The state of the pool.
#[derive(Default)]
pub(super) struct Schedule {
    entries: HashMap<ObjectKey, Entry>,
    /// When to take the next sample of each engine. An engine is added again when its running sample ends.
    due: BTreeSet<(Instant, ObjectKey)>,
    /// The engines with a running sample. Outlives the entry: a sample that was cancelled takes a moment to end.
    running: HashSet<ObjectKey>,
    drain_failures: HashMap<ObjectKey, u64>,
}

struct Entry {
    assignment: Assignment,
    /// Is cancelled when the assignment changes. A sample for the old one is then dropped.
    cancelled: CancellationToken,
    due: Instant,
    began: Option<Instant>,
    latest: Option<Latest>,
    quiet: Option<QuietRun>,
}

enum Latest {
    Drain(DrainSample),
    Activity(ActivitySample),
}

/// An unbroken run of samples that found no query.
struct QuietRun {
    since: Timestamp,
    last: Moment,
    /// If the next sample begins later than this after the last one, a poll was missed.
    max_gap: Duration,
}

/// A sample to be taken.
pub(super) struct SampleJob {
    pub(super) key: ObjectKey,
    pub(super) assignment: Assignment,
    pub(super) cancelled: CancellationToken,
}

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) monotonic: Instant,
    pub(super) wall: Timestamp,
}

/// The result of a sample.
#[derive(Debug)]
pub(super) struct SampleResult {
    /// Before the first scrape.
    pub(super) began: Moment,
    pub(super) total: PodTotal,
}

/// The results of all pods together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PodTotal {
    /// There was no pod. This is no proof that there are no queries: pods are found by their labels, which can be removed.
    NoPods,
    /// The total number of queries; 0 also if there was no pod that can have any.
    Queries(u64),
    /// The scrape of a pod failed.
    Failed { pod: String, cause: String },
}

impl Schedule {
    /// Sets the assignment of an engine.
    pub(super) fn assign(&mut self, key: &ObjectKey, desired: Option<Assignment>, now: Instant) {
        match (self.entries.get_mut(key), desired) {
            (Some(entry), Some(desired)) if entry.assignment.differs_in_interval_at_most(&desired) => {
                if entry.assignment.interval != desired.interval {
                    self.due.remove(&(entry.due, key.clone()));
                    entry.change_interval(desired.interval);
                    self.due.insert((entry.due, key.clone()));
                }
            }
            (_, desired) => {
                self.remove(key);
                if let Some(assignment) = desired {
                    self.due.insert((now, key.clone()));
                    self.entries.insert(key.clone(), Entry::new(assignment, now));
                }
            }
        }
    }

    /// Forgets the engine and its count of failures.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.remove(key);
        self.drain_failures.remove(key);
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some((key, entry)) = self.entries.remove_entry(key) {
            entry.cancelled.cancel();
            self.due.remove(&(entry.due, key));
        }
    }

    /// The samples that are due. Each must be returned to [`Self::finish`].
    pub(super) fn start_due(&mut self, now: Instant) -> Vec<SampleJob> {
        let mut jobs = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((_, key)) = self.due.pop_first() else {
                break;
            };
            // A change during a sample can leave an outdated time.
            let Some(entry) = self.entries.get(&key).filter(|entry| entry.due <= now) else {
                continue;
            };
            // One at a time: the running sample adds the engine again when it ends.
            if !self.running.insert(key.clone()) {
                continue;
            }
            jobs.push(SampleJob {
                assignment: entry.assignment.clone(),
                cancelled: entry.cancelled.clone(),
                key,
            });
        }
        jobs
    }

    /// When the next sample is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A sample has ended. Returns whether it counts: whether its assignment is unchanged.
    pub(super) fn finish(&mut self, job: &SampleJob, result: Option<SampleResult>) -> bool {
        self.running.remove(&job.key);
        let Some(entry) = self.entries.get_mut(&job.key) else {
            return false;
        };
        let result = result.filter(|_| !job.cancelled.is_cancelled());
        let counts = result.is_some();
        if let Some(result) = result {
            entry.record(result);
            if entry.drain_failed() {
                *self.drain_failures.entry(job.key.clone()).or_default() += 1;
            }
        }
        self.due.insert((entry.due, job.key.clone()));
        counts
    }

    pub(super) fn drain_sample(&self, key: &ObjectKey) -> Option<DrainSample> {
        match self.entries.get(key)?.latest.as_ref()? {
            Latest::Drain(sample) => Some(sample.clone()),
            Latest::Activity(_) => None,
        }
    }

    pub(super) fn activity_sample(&self, key: &ObjectKey) -> Option<ActivitySample> {
        match self.entries.get(key)?.latest.as_ref()? {
            Latest::Activity(sample) => Some(sample.clone()),
            Latest::Drain(_) => None,
        }
    }

    pub(super) fn drain_failures(&self, key: &ObjectKey) -> u64 {
        self.drain_failures.get(key).copied().unwrap_or_default()
    }
}

impl Entry {
    fn new(assignment: Assignment, due: Instant) -> Self {
        Self {
            assignment,
            cancelled: CancellationToken::new(),
            due,
            began: None,
            latest: None,
            quiet: None,
        }
    }

    fn change_interval(&mut self, interval: Duration) {
        self.assignment.interval = interval;
        let interval = self.assignment.bounded_interval();
        if let Some(began) = self.began {
            self.due = began + interval;
        }
        // A sample that was in time by the old interval is not late by the new one, and vice versa.
        if let Some(run) = &mut self.quiet {
            run.max_gap = run.max_gap.max(2 * interval);
        }
    }

    fn record(&mut self, SampleResult { began, total }: SampleResult) {
        let interval = self.assignment.bounded_interval();
        self.began = Some(began.monotonic);
        self.due = began.monotonic + interval;
        let generation = self.assignment.generation;
        self.latest = Some(match self.assignment.purpose {
            Purpose::Drain => Latest::Drain(DrainSample {
                generation,
                began: began.wall,
                outcome: drain(total),
            }),
            Purpose::Activity => {
                let outcome = self.activity(began, total);
                let taken = began.wall;
                Latest::Activity(ActivitySample {
                    generation,
                    taken,
                    outcome,
                })
            }
        });
    }

    fn activity(&mut self, began: Moment, total: PodTotal) -> Activity {
        let run = self.quiet.take();
        match total {
            PodTotal::NoPods => Activity::Failed {
                cause: "no pod is running".to_owned(),
            },
            PodTotal::Failed { pod, cause } => Activity::Failed {
                cause: format!("pod {pod}: {cause}"),
            },
            PodTotal::Queries(0) => {
                let since = run
                    .filter(|run| run.continues_at(began))
                    .map_or(began.wall, |run| run.since);
                self.quiet = Some(QuietRun {
                    since,
                    last: began,
                    max_gap: 2 * self.assignment.bounded_interval(),
                });
                Activity::Quiet { since }
            }
            PodTotal::Queries(queries) => Activity::Busy(queries),
        }
    }

    fn drain_failed(&self) -> bool {
        match &self.latest {
            Some(Latest::Drain(sample)) => matches!(sample.outcome, Drain::Failed { .. }),
            Some(Latest::Activity(_)) | None => false,
        }
    }
}

impl QuietRun {
    /// By both clocks: the monotonic one stops while the machine sleeps, the other one can be set.
    fn continues_at(&self, next: Moment) -> bool {
        let by_wall = Duration::try_from(next.wall.duration_since(self.last.wall));
        let by_wall = by_wall.is_ok_and(|gap| gap <= self.max_gap);
        by_wall && next.monotonic - self.last.monotonic <= self.max_gap
    }
}

impl Assignment {
    fn bounded_interval(&self) -> Duration {
        self.interval.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    fn differs_in_interval_at_most(&self, other: &Self) -> bool {
        let interval = self.interval;
        *self
            == Self {
                interval,
                ..other.clone()
            }
    }
}

fn drain(total: PodTotal) -> Drain {
    match total {
        PodTotal::NoPods | PodTotal::Queries(0) => Drain::Drained,
        PodTotal::Queries(queries) => Drain::Busy(queries),
        PodTotal::Failed { pod, cause } => Drain::Failed { pod, cause },
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
