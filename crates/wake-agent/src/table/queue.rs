//! Requests that wait, and how much memory they take up.

use std::collections::BTreeMap;

/// What Envoy keeps for each stream that waits, whatever its request: headers, filters, buffers and the call to us. It is
/// on the safe side: Envoy holds some tens of KiB.
pub const OVERHEAD: u64 = 64 * 1024;
/// The most that Envoy keeps of the body of one request; from there on it no longer reads. It is the limit of the request
/// and that of the connection together, and a little that is on its way.
pub const LARGEST: u64 = 4608 * 1024;

/// What a request takes up while it waits, if Envoy may have to keep that much of its body.
pub(super) fn weight(bytes: u64) -> u64 {
    bytes.min(LARGEST) + OVERHEAD
}

/// Something that takes up memory.
pub(super) trait Weighs {
    fn weight(&self) -> u64;
}

/// Requests by number, which is by arrival, together with what all of them weigh: nobody is counted who does not wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue<T> {
    by_number: BTreeMap<u64, T>,
    weight: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            by_number: BTreeMap::new(),
            weight: 0,
        }
    }
}

impl<T: Weighs> Queue<T> {
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// What all of them weigh.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    pub fn join(&mut self, number: u64, one: T) {
        self.weight += one.weight();
        self.by_number.insert(number, one);
    }

    pub fn leave(&mut self, number: u64) -> Option<T> {
        let one = self.by_number.remove(&number)?;
        self.weight -= one.weight();
        Some(one)
    }

    /// Who came first.
    pub fn first(&self) -> Option<&T> {
        self.by_number.values().next()
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_number.values()
    }

    /// Takes out those from the front to whom this applies.
    pub fn take_while(&mut self, applies: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        let front = self.by_number.iter().take_while(|(_, one)| applies(one));
        let numbers: Vec<u64> = front.map(|(number, _)| *number).collect();
        let taken = numbers.into_iter();
        taken.filter_map(|number| Some((number, self.leave(number)?))).collect()
    }

    /// Takes out everybody.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        std::mem::take(self).by_number.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Weight(u64);

    impl Weighs for Weight {
        fn weight(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn what_waits_is_weighed_and_nothing_else() {
        let mut queue = Queue::default();
        for (number, weight) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
            queue.join(number, Weight(weight));
        }
        assert_eq!(queue.weight(), 150);
        queue.leave(2);
        assert!(queue.leave(2).is_none());
        assert_eq!(queue.weight(), 130);
        assert_eq!(queue.take_while(|one| one.0 < 50).len(), 2);
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
