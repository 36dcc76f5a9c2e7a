//! A queue of held requests that knows how much memory they occupy.

use std::collections::BTreeMap;

/// What Envoy keeps for each held stream besides its body: headers, filters, buffers and the call to the agent. This is
/// a cautious estimate: Envoy needs some tens of KiB.
pub const OVERHEAD: u64 = 64 * 1024;
/// The maximum that Envoy buffers of the body of one request before it stops reading: the limits of the request and of
/// the connection together, and what is already on its way.
pub const LARGEST: u64 = 4608 * 1024;

/// The memory that a held request occupies, if Envoy may have to buffer up to `bytes` of its body.
pub(super) fn weight(bytes: u64) -> u64 {
    bytes.min(LARGEST) + OVERHEAD
}

/// Something that occupies memory.
pub(super) trait Weighted {
    fn weight(&self) -> u64;
}

/// Entries by number, which is by arrival, with the sum of their weights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightedQueue<T> {
    by_number: BTreeMap<u64, T>,
    weight: u64,
}

impl<T> Default for WeightedQueue<T> {
    fn default() -> Self {
        Self {
            by_number: BTreeMap::new(),
            weight: 0,
        }
    }
}

impl<T: Weighted> WeightedQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The sum of all weights.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn push(&mut self, number: u64, entry: T) {
        self.weight += entry.weight();
        self.by_number.insert(number, entry);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let entry = self.by_number.remove(&number)?;
        self.weight -= entry.weight();
        Some(entry)
    }

    /// The entry that arrived first.
    pub(super) fn first(&self) -> Option<&T> {
        self.by_number.values().next()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_number.values()
    }

    /// Removes entries from the front for as long as they match.
    pub(super) fn take_while(&mut self, matches: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        let front = self.by_number.iter().take_while(|(_, entry)| matches(entry));
        let numbers: Vec<u64> = front.map(|(number, _)| *number).collect();
        let taken = numbers.into_iter();
        taken
            .filter_map(|number| Some((number, self.remove(number)?)))
            .collect()
    }

    /// Removes all entries.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        std::mem::take(self).by_number.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Weight(u64);

    impl Weighted for Weight {
        fn weight(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_weight_is_that_of_the_entries_in_the_queue() {
        let mut queue = WeightedQueue::default();
        for (number, weight) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
            queue.push(number, Weight(weight));
        }
        assert_eq!(queue.weight(), 150);
        queue.remove(2);
        assert!(queue.remove(2).is_none());
        assert_eq!(queue.weight(), 130);
        assert_eq!(queue.take_while(|entry| entry.0 < 50).len(), 2);
        assert_eq!((queue.len(), queue.weight()), (1, 80));
        assert_eq!(queue.take().count(), 1);
        assert!(queue.is_empty() && queue.weight() == 0);
    }

    #[test]
    fn a_request_weighs_what_envoy_keeps_of_it() {
        assert_eq!(weight(0), OVERHEAD);
        assert_eq!(weight(1000), OVERHEAD + 1000);
        assert_eq!(weight(u64::MAX), OVERHEAD + LARGEST);
    }
}
