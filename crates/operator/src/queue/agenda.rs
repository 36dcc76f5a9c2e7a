//! What is next. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

/// How soon an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// At once, however much ordinary work is waiting or under way.
    Urgent,
    /// When a worker is free, in the order of arrival.
    Ordinary,
}

/// Urgent looks at a time: far more than are ever expected, but a storm must not open a connection for each.
const URGENT_WORKERS: usize = 64;

/// Objects to look at. Each is looked at once at a time; what arrives meanwhile is remembered as one more look.
#[derive(Debug)]
pub struct Agenda<K> {
    workers: usize,
    urgent: VecDeque<K>,
    ordinary: VecDeque<K>,
    /// Which lane each queued object is in.
    queued: HashMap<K, Lane>,
    /// Those being looked at, and in which lane.
    running: HashMap<K, Lane>,
    /// Those that must be looked at once more when the present look is over.
    again: HashMap<K, Lane>,
    timers: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    /// Those whose timer rings for a look that was urgent and could not be finished.
    unfinished: HashSet<K>,
    /// Those that are not looked at before then, whatever is seen of them, unless it is urgent.
    not_before: HashMap<K, Instant>,
}

/// When an object is looked at again, after a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// When, even if nothing is seen of it.
    pub due: Option<Instant>,
    /// Not before then, whatever is seen of it: the look has failed, and what it did itself must not set off the next.
    pub not_before: Option<Instant>,
    /// The look could not be finished: if it was urgent, the next one is too.
    pub unfinished: bool,
}

impl<K: Clone + Eq + Hash + Ord> Agenda<K> {
    /// Nothing to do yet, for so many ordinary looks at a time.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            urgent: VecDeque::new(),
            ordinary: VecDeque::new(),
            queued: HashMap::new(),
            running: HashMap::new(),
            again: HashMap::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            unfinished: HashSet::new(),
            not_before: HashMap::new(),
        }
    }

    /// The object deserves a look.
    pub fn add(&mut self, key: K, lane: Lane) {
        if self.running.contains_key(&key) {
            let lane = self.again.get(&key).map_or(lane, |known| lane.min(*known));
            self.again.insert(key, lane);
            return;
        }
        match lane {
            Lane::Urgent => drop(self.not_before.remove(&key)),
            Lane::Ordinary => {
                if let Some(&floor) = self.not_before.get(&key) {
                    let due = self.due.get(&key).map_or(floor, |due| floor.min(*due));
                    self.set_timer(key, due);
                    return;
                }
            }
        }
        match (self.queued.get(&key), lane) {
            (None, Lane::Ordinary) => self.ordinary.push_back(key.clone()),
            // One that waits among the ordinary is overtaken; its place there is passed over.
            (None | Some(Lane::Ordinary), Lane::Urgent) => self.urgent.push_back(key.clone()),
            (Some(Lane::Urgent), _) | (Some(Lane::Ordinary), Lane::Ordinary) => return,
        }
        self.queued.insert(key, lane);
    }

    /// The object to look at now, if there is one and somebody to do it. The caller reports back with [`Self::done`].
    pub fn next(&mut self, now: Instant) -> Option<K> {
        self.ring(now);
        let (key, lane) = self.pop(Lane::Urgent).or_else(|| self.pop(Lane::Ordinary))?;
        self.unset_timer(&key);
        self.unfinished.remove(&key);
        self.running.insert(key.clone(), lane);
        Some(key)
    }

    /// The look is over.
    pub fn done(&mut self, key: &K, again: Again) {
        let lane = self.running.remove(key);
        if let Some(due) = again.due {
            self.set_timer(key.clone(), due);
        }
        if again.unfinished && lane == Some(Lane::Urgent) {
            self.unfinished.insert(key.clone());
        }
        if let Some(floor) = again.not_before {
            self.not_before.insert(key.clone(), floor);
        }
        if let Some(lane) = self.again.remove(key) {
            self.add(key.clone(), lane);
        }
    }

    /// How many objects wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queued.len()
    }

    /// For how many objects a timer is set.
    #[must_use]
    pub fn scheduled(&self) -> usize {
        self.timers.len()
    }

    /// When the next timer rings.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn ring(&mut self, now: Instant) {
        while let Some((due, key)) = self.timers.first().cloned()
            && due <= now
        {
            self.unset_timer(&key);
            self.not_before.remove(&key);
            let lane = if self.unfinished.remove(&key) {
                Lane::Urgent
            } else {
                Lane::Ordinary
            };
            self.add(key, lane);
        }
    }

    fn set_timer(&mut self, key: K, due: Instant) {
        self.unset_timer(&key);
        self.timers.insert((due, key.clone()));
        self.due.insert(key, due);
    }

    fn unset_timer(&mut self, key: &K) {
        if let Some((key, due)) = self.due.remove_entry(key) {
            self.timers.remove(&(due, key));
        }
    }

    fn pop(&mut self, lane: Lane) -> Option<(K, Lane)> {
        let limit = match lane {
            Lane::Urgent => URGENT_WORKERS,
            Lane::Ordinary => self.workers,
        };
        let busy = self.running.values().filter(|&&running| running == lane).count();
        if busy >= limit {
            return None;
        }
        loop {
            let key = match lane {
                Lane::Urgent => self.urgent.pop_front(),
                Lane::Ordinary => self.ordinary.pop_front(),
            }?;
            // Gone from here, or queued as urgent since.
            if self.queued.get(&key) == Some(&lane) {
                self.queued.remove(&key);
                return Some((key, lane));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(due: Instant) -> Again {
        Again {
            due: Some(due),
            ..Again::default()
        }
    }

    fn drain(agenda: &mut Agenda<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| agenda.next(now)).collect()
    }

    #[test]
    fn objects_come_in_order_and_each_once() {
        let (mut agenda, now) = (Agenda::new(9), Instant::now());
        for key in ["b", "a", "b"] {
            agenda.add(key, Lane::Ordinary);
        }
        assert_eq!(drain(&mut agenda, now), ["b", "a"]);
    }

    #[test]
    fn only_as_many_ordinary_looks_as_there_are_workers() {
        let (mut agenda, now) = (Agenda::new(1), Instant::now());
        agenda.add("a", Lane::Ordinary);
        agenda.add("b", Lane::Ordinary);
        agenda.add("c", Lane::Urgent);
        agenda.add("d", Lane::Urgent);
        assert_eq!(drain(&mut agenda, now), ["c", "d", "a"]);
        agenda.done(&"c", Again::default());
        assert_eq!(agenda.next(now), None, "an urgent look frees no worker");
        agenda.done(&"a", Again::default());
        assert_eq!(agenda.next(now), Some("b"));
    }

    #[test]
    fn what_becomes_urgent_overtakes_and_is_looked_at_once() {
        let (mut agenda, now) = (Agenda::new(1), Instant::now());
        for key in ["a", "b", "c"] {
            agenda.add(key, Lane::Ordinary);
        }
        agenda.add("c", Lane::Urgent);
        assert_eq!(agenda.next(now), Some("c"));
        agenda.done(&"c", Again::default());
        assert_eq!(agenda.next(now), Some("a"));
        agenda.done(&"a", Again::default());
        assert_eq!(agenda.next(now), Some("b"));
        agenda.done(&"b", Again::default());
        assert_eq!(agenda.next(now), None);
    }

    #[test]
    fn news_during_a_look_lead_to_one_more() {
        let (mut agenda, now) = (Agenda::new(4), Instant::now());
        agenda.add("a", Lane::Ordinary);
        assert_eq!(agenda.next(now), Some("a"));
        agenda.add("a", Lane::Ordinary);
        agenda.add("a", Lane::Urgent);
        assert_eq!(agenda.next(now), None, "one look at a time");
        agenda.done(&"a", Again::default());
        agenda.add("b", Lane::Ordinary);
        assert_eq!(drain(&mut agenda, now), ["a", "b"]);
        agenda.done(&"a", Again::default());
        assert_eq!(agenda.next(now), None);
    }

    #[test]
    fn a_timer_rings_once_and_the_latest_word_counts() {
        let (mut agenda, now) = (Agenda::new(4), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        agenda.add("a", Lane::Ordinary);
        agenda.next(now);
        agenda.done(&"a", at(later(5)));
        assert_eq!(agenda.next_due(), Some(later(5)));
        assert_eq!(agenda.next(later(4)), None);
        assert_eq!(agenda.next(later(5)), Some("a"));
        assert_eq!(agenda.next_due(), None);
        agenda.done(&"a", at(later(9)));
        agenda.add("a", Lane::Ordinary);
        assert_eq!(agenda.next(later(6)), Some("a"), "news come before the timer");
        assert_eq!(agenda.next_due(), None, "and the look sets its own");
        agenda.done(&"a", Again::default());
        assert_eq!(agenda.next(later(10)), None);
    }

    #[test]
    fn the_last_look_decides_when_the_next_is_due() {
        let (mut agenda, now) = (Agenda::new(4), Instant::now());
        agenda.add("a", Lane::Ordinary);
        agenda.next(now);
        agenda.done(&"a", at(now + Duration::from_secs(5)));
        agenda.done(&"a", at(now + Duration::from_secs(2)));
        assert_eq!(agenda.next_due(), Some(now + Duration::from_secs(2)));
        assert_eq!(agenda.timers.len(), 1);
    }

    #[test]
    fn after_a_failure_only_what_is_urgent_comes_before_the_pause_is_over() {
        let (mut agenda, now) = (Agenda::new(4), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        let failed = Again {
            due: Some(later(60)),
            not_before: Some(later(2)),
            ..Again::default()
        };
        agenda.add("a", Lane::Ordinary);
        agenda.next(now);
        agenda.add("a", Lane::Ordinary);
        agenda.done(&"a", failed);
        assert_eq!(agenda.next(later(1)), None, "seen during the look");
        agenda.add("a", Lane::Ordinary);
        assert_eq!(agenda.next(later(1)), None, "seen after the look");
        assert_eq!(agenda.next_due(), Some(later(2)));
        assert_eq!(agenda.next(later(2)), Some("a"));
        agenda.done(&"a", Again::default());
        agenda.add("a", Lane::Ordinary);
        assert_eq!(agenda.next(later(2)), Some("a"), "the pause is over");
        agenda.done(&"a", failed);
        agenda.add("a", Lane::Urgent);
        assert_eq!(agenda.next(now), Some("a"));
    }

    #[test]
    fn after_a_failure_of_which_nothing_more_is_seen_the_timer_stands() {
        let (mut agenda, now) = (Agenda::new(4), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        agenda.add("a", Lane::Ordinary);
        agenda.next(now);
        agenda.done(
            &"a",
            Again {
                due: Some(later(60)),
                not_before: Some(later(2)),
                ..Again::default()
            },
        );
        assert_eq!(agenda.next_due(), Some(later(60)));
        assert_eq!(agenda.next(later(60)), Some("a"));
        assert!(agenda.not_before.is_empty());
    }

    #[test]
    fn an_urgent_look_that_could_not_be_finished_stays_urgent() {
        let (mut agenda, now) = (Agenda::new(1), Instant::now());
        let unfinished = Again {
            due: Some(now),
            unfinished: true,
            ..Again::default()
        };
        agenda.add("busy", Lane::Ordinary);
        agenda.next(now);
        agenda.add("wake", Lane::Urgent);
        assert_eq!(agenda.next(now), Some("wake"));
        agenda.done(&"wake", unfinished);
        assert_eq!(agenda.next(now), Some("wake"), "all workers are busy");
        agenda.done(&"wake", at(now));
        assert_eq!(agenda.next(now), None, "it is finished now");
        agenda.done(&"busy", unfinished);
        assert_eq!(agenda.next(now), Some("wake"));
    }
}
