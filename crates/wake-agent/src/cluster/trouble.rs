//! Trouble that lasts is told when it begins and when it is over: not with each attempt, and not for each engine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::fault::Kind;

/// How soon the same is told again, if it comes and goes.
const AGAIN: Duration = Duration::from_mins(1);

/// What goes wrong with one thing that is done again and again.
#[derive(Debug)]
pub struct Trouble {
    /// What is done.
    what: &'static str,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Of what kind the last attempt failed. None if it did not.
    last: Option<Kind>,
    /// When each kind was told.
    told: HashMap<Kind, Instant>,
    /// Whether the last that was told is that something fails.
    open: bool,
}

impl Trouble {
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            memory: Mutex::default(),
        }
    }

    /// An attempt failed.
    pub fn is(&self, kind: Kind, text: &str) {
        if self.memory().fails(kind, Instant::now()) {
            warn!("{text}");
        }
    }

    /// An attempt did not fail.
    pub fn is_over(&self) {
        if self.memory().works() {
            info!("can {} again", self.what);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Returns whether that is to be told.
    fn fails(&mut self, kind: Kind, now: Instant) -> bool {
        let lasts = self.last.replace(kind) == Some(kind);
        let fresh = self.told.get(&kind).is_some_and(|told| now < *told + AGAIN);
        if lasts && self.open || fresh {
            return false;
        }
        self.told.insert(kind, now);
        self.open = true;
        true
    }

    /// Returns whether that is to be told.
    fn works(&mut self) -> bool {
        self.last = None;
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_when_it_begins_when_it_changes_and_when_it_is_over() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        assert!(!memory.works());
        assert!(memory.fails(Kind::Silent, now));
        assert!(!memory.fails(Kind::Silent, now + 2 * AGAIN), "it is still the same");
        assert!(memory.fails(Kind::Answered(403), now));
        assert!(memory.works());
        assert!(!memory.works());
    }

    #[test]
    fn trouble_that_comes_and_goes_is_told_once_a_minute() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let mut lines = 0;
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            let (one, other) = (Kind::Silent, Kind::Answered(503));
            lines += usize::from(memory.fails(if second % 2 == 0 { one } else { other }, now));
            lines += usize::from(second % 3 == 0 && memory.works());
        }
        // Two kinds and that they are over, each at most once a minute.
        assert!((5..=20).contains(&lines), "{lines}");
    }
}
