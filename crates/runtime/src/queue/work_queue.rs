//! The work queue of one controller. The time is an argument.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

use super::metrics::QueueMetrics;
use super::priority::Priority;

/// Urgent reconciles at a time: far more than are ever expected, but a storm must not open a connection for each.
const URGENT_WORKERS: usize = 64;

/// When to reconcile an object again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeue {
    /// When, even if nothing changes. Never if none.
    pub at: Option<Instant>,
    /// Not before then, whatever changes, unless it is urgent: a failed reconcile must not be triggered again by its own
    /// writes.
    pub not_before: Option<Instant>,
    /// The reconcile could not do its work: the next one has the same priority.
    pub(crate) keep_priority: bool,
}

/// The objects to reconcile. At most one reconcile of an object runs at a time; changes that arrive meanwhile lead to one
/// more.
#[derive(Debug)]
pub struct WorkQueue<K> {
    workers: usize,
    metrics: QueueMetrics,
    urgent: VecDeque<K>,
    normal: VecDeque<K>,
    /// The priority of each queued object, and since when it is queued.
    queued: HashMap<K, (Priority, Instant)>,
    /// How many of them are urgent.
    queued_urgent: usize,
    /// The objects being reconciled, and with which priority.
    running: HashMap<K, Priority>,
    /// The objects to reconcile once more when the running reconcile ends.
    dirty: HashMap<K, Priority>,
    timers: BTreeSet<(Instant, K)>,
    timer_of: HashMap<K, Instant>,
    /// The objects whose timer is for an urgent reconcile that could not do its work.
    urgent_timers: HashSet<K>,
    /// The objects that are throttled until then, unless they become urgent.
    not_before: HashMap<K, Instant>,
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// An empty queue for so many normal reconciles at a time.
    #[must_use]
    pub(crate) fn new(workers: usize, metrics: QueueMetrics) -> Self {
        Self {
            workers: workers.max(1),
            metrics,
            urgent: VecDeque::new(),
            normal: VecDeque::new(),
            queued: HashMap::new(),
            queued_urgent: 0,
            running: HashMap::new(),
            dirty: HashMap::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
            urgent_timers: HashSet::new(),
            not_before: HashMap::new(),
        }
    }

    /// Adds an object.
    pub(crate) fn add(&mut self, key: K, priority: Priority, now: Instant) {
        if self.running.contains_key(&key) {
            let priority = self.dirty.get(&key).map_or(priority, |known| priority.min(*known));
            self.dirty.insert(key, priority);
            return;
        }
        match priority {
            Priority::Urgent => drop(self.not_before.remove(&key)),
            Priority::Normal => {
                if let Some(&not_before) = self.not_before.get(&key) {
                    let at = self.timer_of.get(&key).map_or(not_before, |at| not_before.min(*at));
                    self.set_timer(key, at);
                    return;
                }
            }
        }
        let since = match (self.queued.get(&key), priority) {
            (None, _) => {
                self.metrics.added();
                now
            }
            // Its place in the queue of normal priority is skipped.
            (Some((Priority::Normal, since)), Priority::Urgent) => *since,
            (Some((Priority::Urgent, _)), _) | (Some((Priority::Normal, _)), Priority::Normal) => return,
        };
        match priority {
            Priority::Urgent => {
                self.urgent.push_back(key.clone());
                self.queued_urgent += 1;
            }
            Priority::Normal => self.normal.push_back(key.clone()),
        }
        self.queued.insert(key, (priority, since));
    }

    /// The next object to reconcile, if a worker is free. The caller calls [`Self::done`] afterwards.
    pub(crate) fn next(&mut self, now: Instant) -> Option<K> {
        self.fire_timers(now);
        let (key, priority) = self
            .pop(Priority::Urgent, now)
            .or_else(|| self.pop(Priority::Normal, now))?;
        self.unset_timer(&key);
        self.urgent_timers.remove(&key);
        self.running.insert(key.clone(), priority);
        Some(key)
    }

    /// The reconcile of an object has ended.
    pub(crate) fn done(&mut self, key: &K, requeue: Requeue, now: Instant) {
        let priority = self.running.remove(key);
        if let Some(at) = requeue.at {
            self.set_timer(key.clone(), at);
        }
        if requeue.keep_priority && priority == Some(Priority::Urgent) {
            self.urgent_timers.insert(key.clone());
        }
        if let Some(not_before) = requeue.not_before {
            self.not_before.insert(key.clone(), not_before);
        }
        if let Some(priority) = self.dirty.remove(key) {
            self.add(key.clone(), priority, now);
        }
    }

    /// Exports how many objects of each priority wait for a worker, and how many have a timer.
    pub(crate) fn measure(&self) {
        self.metrics.set_depth(Priority::Urgent, self.queued_urgent);
        self.metrics
            .set_depth(Priority::Normal, self.queued.len() - self.queued_urgent);
        self.metrics.set_scheduled(self.timers.len());
    }

    /// When the next timer fires.
    #[must_use]
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().cloned()
            && at <= now
        {
            self.unset_timer(&key);
            self.not_before.remove(&key);
            let priority = if self.urgent_timers.remove(&key) {
                Priority::Urgent
            } else {
                Priority::Normal
            };
            self.add(key, priority, now);
        }
    }

    fn set_timer(&mut self, key: K, at: Instant) {
        self.unset_timer(&key);
        self.timers.insert((at, key.clone()));
        self.timer_of.insert(key, at);
    }

    fn unset_timer(&mut self, key: &K) {
        if let Some((key, at)) = self.timer_of.remove_entry(key) {
            self.timers.remove(&(at, key));
        }
    }

    fn pop(&mut self, priority: Priority, now: Instant) -> Option<(K, Priority)> {
        let limit = match priority {
            Priority::Urgent => URGENT_WORKERS,
            Priority::Normal => self.workers,
        };
        let busy = self.running.values().filter(|&&running| running == priority).count();
        if busy >= limit {
            return None;
        }
        loop {
            let key = match priority {
                Priority::Urgent => self.urgent.pop_front(),
                Priority::Normal => self.normal.pop_front(),
            }?;
            // Otherwise it is no longer queued, or has become urgent since.
            if let Some(&(queued, since)) = self.queued.get(&key)
                && queued == priority
            {
                self.queued.remove(&key);
                self.queued_urgent -= usize::from(priority == Priority::Urgent);
                self.metrics.waited(now.saturating_duration_since(since));
                return Some((key, priority));
            }
        }
    }
}

#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;
