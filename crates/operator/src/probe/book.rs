//! What is assigned, when it is due, and what was found. No I/O, no clock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use firebolt_core::plan::engine::{Activity, ActivitySample, Drain, DrainSample};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Assignment, Purpose};
use crate::key::ObjectKey;

/// No engine is asked more often than this, whatever its settings say.
const SHORTEST_PACE: Duration = Duration::from_secs(1);
/// Longer intervals are as good as never; the bound keeps sums of times in range.
const LONGEST_PACE: Duration = Duration::from_hours(24 * 365);

/// Everything that the pool remembers.
#[derive(Default)]
pub(super) struct Book {
    entries: HashMap<ObjectKey, Entry>,
    /// When to look at which engine. Those that are being asked come back here when their sample ends.
    schedule: BTreeSet<(Instant, ObjectKey)>,
    /// Whom a sample is being taken of. Outlives the entry: a sample that was called off takes a moment to end.
    asking: HashSet<ObjectKey>,
    drain_failures: HashMap<ObjectKey, u64>,
}

struct Entry {
    assignment: Assignment,
    /// Cancelled when the assignment is no longer this one. A sample that was taken for it is then worth nothing.
    called_off: CancellationToken,
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
    /// If the next sample begins later than this after the last, a poll was missed.
    patience: Duration,
}

/// A sample to be taken.
pub(super) struct Job {
    pub(super) key: ObjectKey,
    pub(super) assignment: Assignment,
    pub(super) called_off: CancellationToken,
}

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) monotonic: Instant,
    pub(super) wall: Timestamp,
}

/// What a sample found.
#[derive(Debug)]
pub(super) struct Finding {
    /// Before the first question.
    pub(super) began: Moment,
    pub(super) tally: Tally,
}

/// The answers of all pods together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tally {
    /// There was no pod to ask.
    NobodyAsked,
    /// So many queries in all.
    Queries(u64),
    /// A pod did not answer.
    Failed { pod: String, cause: String },
}

impl Book {
    /// Takes in what is wanted, at the time `now`.
    pub(super) fn assign(&mut self, key: &ObjectKey, wanted: Option<Assignment>, now: Instant) {
        match (self.entries.get_mut(key), wanted) {
            (Some(entry), Some(wanted)) if entry.assignment.differs_in_interval_at_most(&wanted) => {
                if entry.assignment.interval != wanted.interval {
                    self.schedule.remove(&(entry.due, key.clone()));
                    entry.change_interval(wanted.interval);
                    self.schedule.insert((entry.due, key.clone()));
                }
            }
            (_, wanted) => {
                self.remove(key);
                if let Some(assignment) = wanted {
                    self.schedule.insert((now, key.clone()));
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
            entry.called_off.cancel();
            self.schedule.remove(&(entry.due, key));
        }
    }

    /// The samples that are due. Each must be given back to [`Self::finish`].
    pub(super) fn start_due(&mut self, now: Instant) -> Vec<Job> {
        let mut jobs = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((_, key)) = self.schedule.pop_first() else {
                break;
            };
            // A time that no longer holds can be left from a change during a sample.
            let Some(entry) = self.entries.get(&key).filter(|entry| entry.due <= now) else {
                continue;
            };
            // One at a time: the sample that is under way puts the engine back on the schedule when it ends.
            if !self.asking.insert(key.clone()) {
                continue;
            }
            jobs.push(Job {
                assignment: entry.assignment.clone(),
                called_off: entry.called_off.clone(),
                key,
            });
        }
        jobs
    }

    /// When the next sample is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.schedule.first().map(|(due, _)| *due)
    }

    /// Takes in the end of a sample. True if it counts: its assignment still stands.
    pub(super) fn finish(&mut self, job: &Job, finding: Option<Finding>) -> bool {
        self.asking.remove(&job.key);
        let Some(entry) = self.entries.get_mut(&job.key) else {
            return false;
        };
        let finding = finding.filter(|_| !job.called_off.is_cancelled());
        let counts = finding.is_some();
        if let Some(finding) = finding {
            entry.take_in(finding);
            if entry.drain_failed() {
                *self.drain_failures.entry(job.key.clone()).or_default() += 1;
            }
        }
        self.schedule.insert((entry.due, job.key.clone()));
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
            called_off: CancellationToken::new(),
            due,
            began: None,
            latest: None,
            quiet: None,
        }
    }

    fn change_interval(&mut self, interval: Duration) {
        self.assignment.interval = interval;
        let pace = self.assignment.pace();
        if let Some(began) = self.began {
            self.due = began + pace;
        }
        // What was in time by the old interval is not late by the new one, and the other way round.
        if let Some(run) = &mut self.quiet {
            run.patience = run.patience.max(2 * pace);
        }
    }

    fn take_in(&mut self, Finding { began, tally }: Finding) {
        let pace = self.assignment.pace();
        self.began = Some(began.monotonic);
        self.due = began.monotonic + pace;
        let generation = self.assignment.generation;
        self.latest = Some(match self.assignment.purpose {
            Purpose::Drain => Latest::Drain(DrainSample {
                generation,
                began: began.wall,
                outcome: drain(tally),
            }),
            Purpose::Activity => {
                let outcome = self.activity(began, tally);
                let taken = began.wall;
                Latest::Activity(ActivitySample {
                    generation,
                    taken,
                    outcome,
                })
            }
        });
    }

    fn activity(&mut self, began: Moment, tally: Tally) -> Activity {
        let run = self.quiet.take();
        match tally {
            Tally::NobodyAsked => Activity::Failed {
                cause: "no pod is running".to_owned(),
            },
            Tally::Failed { pod, cause } => Activity::Failed {
                cause: format!("pod {pod}: {cause}"),
            },
            Tally::Queries(0) => {
                let since = run
                    .filter(|run| run.goes_on_at(began))
                    .map_or(began.wall, |run| run.since);
                self.quiet = Some(QuietRun {
                    since,
                    last: began,
                    patience: 2 * self.assignment.pace(),
                });
                Activity::Quiet { since }
            }
            Tally::Queries(queries) => Activity::Busy(queries),
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
    /// By both clocks: one stands still while the machine sleeps, the other can be set.
    fn goes_on_at(&self, next: Moment) -> bool {
        let by_wall = Duration::try_from(next.wall.duration_since(self.last.wall));
        let by_wall = by_wall.is_ok_and(|gap| gap <= self.patience);
        by_wall && next.monotonic - self.last.monotonic <= self.patience
    }
}

impl Assignment {
    fn pace(&self) -> Duration {
        self.interval.clamp(SHORTEST_PACE, LONGEST_PACE)
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

fn drain(tally: Tally) -> Drain {
    match tally {
        Tally::NobodyAsked | Tally::Queries(0) => Drain::Drained,
        Tally::Queries(queries) => Drain::Busy(queries),
        Tally::Failed { pod, cause } => Drain::Failed { pod, cause },
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
