//! The search itself.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Instant;

use super::{Counterexample, Model, Progress, Report, Step};

/// The last event of a counterexample to liveness.
pub(super) const FAIR: &str = "from here, nothing is disturbed any more";

/// Searches every state that can be reached from the initial ones, or about `limit` of them, for a violation.
pub fn search<M: Model>(
    model: &M,
    initial: impl IntoIterator<Item = M::State>,
    limit: usize,
) -> Result<Report, Box<Counterexample<M::Violation>>> {
    let started = Instant::now();
    let mut reached = Reached::default();
    let mut level: Vec<(usize, M::State)> = Vec::new();
    for state in initial {
        let state = model.normalize(state);
        level.extend(reached.add(&state, None).map(|at| (at, state)));
    }
    let mut live = HashSet::new();
    let mut transitions = 0;
    let mut depth = 0;
    let mut labels = BTreeMap::new();
    let mut exhausted = true;
    while !level.is_empty() && exhausted {
        let mut next_level = Vec::new();
        for (at, state) in level {
            if reached.origins.len() >= limit {
                exhausted = false;
                break;
            }
            fair_run(model, &state, &mut live)
                .map_err(|violation| Box::new(reached.counterexample(violation, at, FAIR, &state)))?;
            for Step {
                event,
                next,
                labels: seen,
            } in model.steps(&state)
            {
                transitions += 1;
                for label in seen {
                    *labels.entry(label).or_default() += 1;
                }
                let next = next.map_err(|violation| Box::new(reached.counterexample(violation, at, &event, &state)))?;
                let next = model.normalize(next);
                next_level.extend(reached.add(&next, Some((at, event))).map(|at| (at, next)));
            }
        }
        depth += usize::from(!next_level.is_empty());
        level = next_level;
    }
    Ok(Report {
        states: reached.origins.len(),
        transitions,
        depth,
        exhausted,
        labels,
        took: started.elapsed(),
    })
}

/// The states that were reached.
#[derive(Default)]
struct Reached {
    hashes: HashSet<u64>,
    /// Of each state, the one that it was first reached from, and by what. Initial states have none.
    origins: Vec<Option<(usize, Box<str>)>>,
}

impl Reached {
    /// The index of a state that is new.
    fn add(&mut self, state: &impl Hash, origin: Option<(usize, String)>) -> Option<usize> {
        if !self.hashes.insert(hash(state)) {
            return None;
        }
        self.origins.push(origin.map(|(at, event)| (at, event.into())));
        Some(self.origins.len() - 1)
    }

    fn counterexample<V>(&self, violation: V, at: usize, last: &str, state: &impl Debug) -> Counterexample<V> {
        let mut trace = vec![last.to_owned()];
        let mut origin = &self.origins[at];
        while let Some((parent, event)) = origin {
            trace.push(event.to_string());
            origin = &self.origins[*parent];
        }
        trace.reverse();
        let state = format!("{state:?}");
        Counterexample {
            violation,
            trace,
            state,
        }
    }
}

/// Follows the fair run from a state to its end, or to a position from which another one reached its end (`live`).
fn fair_run<M: Model>(model: &M, state: &M::State, live: &mut HashSet<u64>) -> Result<(), M::Violation> {
    let mut run = model.fair_run(state);
    let mut path = Vec::new();
    for _ in 0..M::FAIR_STEPS {
        let position = hash(&run);
        if live.contains(&position) {
            live.extend(path);
            return Ok(());
        }
        path.push(position);
        match model.advance(&mut run)? {
            Progress::Continues => {}
            Progress::Terminal => {
                live.extend(path);
                return Ok(());
            }
        }
    }
    Err(model.never_ends(&run))
}

fn hash(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
