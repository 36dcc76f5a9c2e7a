//! A model checker: a breadth-first search through every state that a [`Model`] can reach.
//!
//! It checks two kinds of properties:
//!
//! - *Safety*: nothing bad happens. A model states it by returning a violation instead of the next state.
//! - *Liveness*: from every reachable state, a terminal state can still be reached. A model states it as a
//!   [fair run](Model::fair_run): what happens from here if nothing is disturbed any more and everything that should help
//!   does. A fair run that goes round in a cycle is a violation, which a checker that only asks whether each path ends
//!   well cannot see (`docs/adr/0012-own-model-search.md`).
//!
//! Since the search is breadth-first, a counterexample is a shortest one, for each property that it violates first.
//!
//! States are distinguished by a hash of 64 bits, so that millions of them need little memory. The chance that two states
//! of `n` share a hash, which hides one of them, is about `n² / 2⁶⁵`: one in thirty million for a million states.

mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

pub use search::search;

/// What is searched: the states, what can happen in each, and what must hold.
pub trait Model {
    /// Everything that the future depends on.
    type State: Hash + fmt::Debug;
    /// A run in which everything helps; its hash is its position. Equal positions have equal futures.
    type FairRun: Hash;
    /// A property that does not hold, with the reason.
    type Violation;

    /// More steps than any fair run takes to a terminal state.
    const FAIR_STEPS: usize;

    /// A state in normal form: states with the same normal form are one.
    #[must_use]
    fn normalize(&self, state: Self::State) -> Self::State {
        state
    }

    /// Everything that can happen in a state.
    fn steps(&self, state: &Self::State) -> Vec<Step<Self::State, Self::Violation>>;

    /// The fair run from a state.
    fn fair_run(&self, state: &Self::State) -> Self::FairRun;

    /// The next step of a fair run. Checks what must hold at a terminal state before it reports one.
    fn advance(&self, run: &mut Self::FairRun) -> Result<Progress, Self::Violation>;

    /// A fair run has not ended after [`FAIR_STEPS`](Self::FAIR_STEPS).
    fn never_ends(&self, run: &Self::FairRun) -> Self::Violation;
}

/// Something that can happen in a state.
#[derive(Clone, Debug)]
pub struct Step<State, Violation> {
    /// What happens, for the trace of a counterexample.
    pub event: String,
    /// The state after it, or the property that it violates.
    pub next: Result<State, Violation>,
    /// What to count in [`Report::labels`].
    pub labels: Vec<&'static str>,
}

/// How far a fair run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on.
    Continues,
    /// It is in a terminal state.
    Terminal,
}

/// What a search without a violation went through.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many states were reached.
    pub states: usize,
    /// How many steps there are between them.
    pub transitions: usize,
    /// How many steps it takes to the state that is farthest away.
    pub depth: usize,
    /// All states were searched: the limit was not reached.
    pub exhausted: bool,
    /// How often each label was seen on a step.
    pub labels: BTreeMap<&'static str, usize>,
    /// How long the search took.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            transitions,
            depth,
            exhausted,
            labels,
            took,
        } = self;
        write!(f, "{states} states, {transitions} transitions, depth {depth}, ")?;
        write!(f, "{:.1} s", took.as_secs_f32())?;
        if !exhausted {
            write!(f, ", stopped at the limit")?;
        }
        if !labels.is_empty() {
            write!(f, ", {labels:?}")?;
        }
        Ok(())
    }
}

/// A violation, and the shortest way from an initial state to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample<Violation> {
    /// What does not hold.
    pub violation: Violation,
    /// What happened, in order.
    pub trace: Vec<String>,
    /// The state before the last event.
    pub state: String,
}

impl<Violation: fmt::Display> fmt::Display for Counterexample<Violation> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        for event in &self.trace {
            writeln!(f, "- {event}")?;
        }
        write!(f, "before the last event: {}", self.state)
    }
}
