//! The decision of one pass over an engine: what to write, what to report, when to look again.
//!
//! ```text
//!              drift: next number
//!              ┌───────┐
//!              ▼       │ all ready            routed             counted idle
//!   (new) ──► creating ┴─────────► switching ───────► draining ───────────► cleaning
//!              ▲  ▲ ▲   ◄─────────      │                 │ │                   │
//!              │  │ │    not ready      │ first deploy    │ │ nothing to drain  │ deleted
//!              │  │ └───────────────────┼─────────────────┘ ▼                   ▼
//!              │  │      new one lost   └───────────► stable / stopped ◄────────┘
//!              │  └─────────────────────────────────────────┘ drift: next number
//! ```
//!
//! A rollout is a chain of passes, and each pass either changes the cluster or the phase that the next pass acts on:
//! - the pass that decides on a new generation writes nothing but the status, so no object exists that the status does
//!   not know of (intent before creation);
//! - a generation that is given up while it is being created is left behind by number, and the sweep removes it in the
//!   next pass, once the status no longer names it;
//! - the switch is believed only when it is *seen*: switching ends in the pass that observes the routing Service at the
//!   new generation, not in the one that wrote it;
//! - a generation without pods takes over from one that serves only when the stop has been visible for a while, so that
//!   gateways hold the queries that come next.
//!
//! [`plan`] reads no clock and does no I/O. What it relies on is said in [`Input`]'s module and in [`Plan`].

mod auto_stop;
mod cleaning;
mod creating;
mod delete;
mod draining;
mod input;
mod notice;
mod output;
mod phase;
mod ready;
mod recover;
mod schedule;
mod status;
mod sweep;
mod switching;
mod terminal;

#[cfg(test)]
mod fixture;

use std::time::Duration;

use firebolt_api::EnginePhase;
use firebolt_api::key::Finalizer;

pub use auto_stop::{CLOCK_SKEW, WAKE_IGNORED, WAKE_TTL};
pub use input::{
    Activity, ActivitySample, Desired, Drain, DrainSample, DrainSettings, Gate, GateCause, Generation, Input, Observed,
    Pods, Routing, StatefulSet, StatefulSetWarning,
};
pub use notice::STOP_NOTICE;
pub use output::{Kind, Object, Plan, Write};
pub use phase::terminal_phase;
pub use sweep::BUDGET as SWEEP_BUDGET;

use phase::{Progress, Step};

/// Decides on one pass.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    if input.engine.metadata.deletion_timestamp.is_some() {
        return delete::plan(input);
    }
    if !has_finalizer(input) {
        return Plan {
            writes: vec![Write::AddFinalizer],
            status: None,
            events: Vec::new(),
            look_again: Some(Duration::ZERO),
        };
    }
    match recover::progress(input) {
        recover::Known::Sound(before) => advance(input, before),
        recover::Known::New(progress) => status::first(input, progress),
        recover::Known::Recovered(progress) => status::recovered(input, progress),
    }
}

fn has_finalizer(input: &Input) -> bool {
    let finalizers = input.engine.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == Finalizer::Engine.key())
}

/// One step of the phase machine, then what accompanies every step.
fn advance(input: &Input, before: Progress) -> Plan {
    let mut step = step(input, before);
    let mut events = Vec::new();
    if step.progress.current == before.current {
        sweep::add(input, before, &mut step);
    }
    let auto_stop = step.auto_stop.take();
    if let Some(decision) = &auto_stop {
        // First of all: somebody waits for it, and no repair that fails may come between.
        step.writes.splice(0..0, decision.write(input));
        step.look_again = sooner(step.look_again, decision.look_again);
        events.extend(decision.events.iter().cloned());
    }
    status::conclude(input, before, step, auto_stop, events)
}

fn step(input: &Input, before: Progress) -> Step {
    match before.phase {
        EnginePhase::Stable | EnginePhase::Stopped => terminal::step(input, before),
        EnginePhase::Creating => creating::step(input, before),
        EnginePhase::Switching => switching::step(input, before),
        EnginePhase::Draining => draining::step(input, before),
        EnginePhase::Cleaning => cleaning::step(input, before),
    }
}

fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
