//! What one reconcile of an engine does: writes, status, events and requeue.
//!
//! ```text
//!              drift: next number
//!              ┌───────┐
//!              ▼       │ all ready            routed             counted idle
//!   (new) ──► creating ┴─────────► switching ───────► draining ───────────► cleaning
//!              ▲  ▲ ▲   ◄─────────      │                 │ │                   │
//!              │  │ │   not ready (*)   │ first deploy    │ │ nothing to drain  │ deleted
//!              │  │ └───────────────────┼─────────────────┘ ▼                   ▼
//!              │  │      new one lost   └───────────► stable / stopped ◄────────┘
//!              │  └─────────────────────────────────────────┘ drift: next number
//! ```
//!
//! (*) Or a stop that still waits for its notice is outdated.
//!
//! A rollout is a sequence of reconciles, and each of them changes either the cluster or the phase on which the next
//! one acts:
//! - the reconcile that starts a new generation writes only the status, so no object exists that the status does not
//!   know of (intent before creation);
//! - a generation that is abandoned while it is being created is skipped by number, and the sweep deletes it in the
//!   next reconcile, once the status no longer names it;
//! - the switch counts only when it is *observed*: switching ends in the reconcile that observes that the routing
//!   Service selects the new generation, not in the one that wrote it;
//! - a generation without pods takes over from one that serves only when the stop has been visible for a while, so that
//!   gateways hold the queries that arrive afterwards.
//!
//! [`plan`] reads no clock and does no I/O. Its assumptions are documented in the module of [`Input`] and in [`Plan`].

mod auto_stop;
mod cleaning;
mod cleanup;
mod creating;
mod delete;
mod draining;
mod drift;
mod input;
mod kstatus;
mod lost_pod;
mod notice;
mod output;
mod phase;
mod progress;
mod ready;
mod recover;
mod schedule;
mod shortage;
mod status;
mod sweep;
mod switching;
mod terminal;
mod throttle;

#[cfg(test)]
mod fixture;

use std::time::Duration;

use firebolt_api::key::Finalizer;
use firebolt_api::{EnginePhase, FireboltEngineStatus};

pub use auto_stop::{CLOCK_SKEW, WAKE_IGNORED, WAKE_TTL};
pub use drift::ADOPTS_RENDERING;
pub use input::{
    Activity, ActivitySample, Adoption, Deletion, Desired, Drain, DrainSample, DrainSettings, Gate, GateCause,
    Generation, Input, Limits, Observed, OrphanedPod, Pods, RefusedDelete, Rejected, Routing, StatefulSet,
    StatefulSetWarning, TerminatingPod,
};
pub use notice::STOP_NOTICE;
pub use output::{DeletedObject, EngineObjectKind, EngineWrite, Plan};
pub use shortage::EVENTS_INTERVAL;
pub(crate) use shortage::events_due;
pub use status::STATUS_RECOVERED;

use super::{PlannedEvent, Severity, has_finalizer};
use phase::Transition;
use progress::Progress;

/// Plans one reconcile.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    let gate = throttle::rejected(input).map(|rejected| Err(rejected.gate.clone()));
    let limited = Input {
        desired: gate.as_ref().unwrap_or(input.desired),
        ..*input
    };
    throttle::limit(input, unlimited(&limited))
}

/// The status and the events that report that the API server rejected an object of a plan from this input: the gate is
/// closed, and nothing else has changed. `None` if the status says so already.
#[must_use]
pub fn report_rejection(input: &Input, gate: Gate) -> Option<(FireboltEngineStatus, Vec<PlannedEvent>)> {
    let gated = Err(gate);
    let Plan { status, mut events, .. } = plan(&Input {
        desired: &gated,
        ..*input
    });
    events.retain(|event| event.severity == Severity::Warning);
    Some((status?, events))
}

/// The plan as if every status may be written at any time, with only those requeue times that it needs itself.
fn unlimited(input: &Input) -> Plan {
    if input.engine.metadata.deletion_timestamp.is_some() {
        return delete::plan(input);
    }
    if !has_finalizer(&input.engine.metadata, Finalizer::Engine.key()) {
        return Plan {
            writes: vec![EngineWrite::AddFinalizer],
            requeue_after: Some(Duration::ZERO),
            ..Plan::default()
        };
    }
    match recover::progress(input) {
        recover::ProgressSource::Status(before) => advance(input, before),
        recover::ProgressSource::New(progress) => status::first(input, progress),
        recover::ProgressSource::Cluster(progress) => status::recovered(input, progress),
    }
}

/// One step of the phase machine, then the sweep and auto-stop, which accompany every step.
fn advance(input: &Input, before: Progress) -> Plan {
    let mut step = step(input, before);
    let mut events = Vec::new();
    if step.progress.current == before.current {
        sweep::add(input, before, &mut step);
    }
    let auto_stop = step.auto_stop.take();
    if let Some(decision) = &auto_stop {
        // First, because a client may be waiting for it, and a failing repair must not prevent it.
        step.writes.splice(0..0, decision.write(input));
        step.requeue_after = sooner(step.requeue_after, decision.requeue_after);
        events.extend(decision.events.iter().cloned());
    }
    status::conclude(input, before, step, auto_stop, events)
}

fn step(input: &Input, before: Progress) -> Transition {
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

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::Switching;
    use firebolt_api::condition::EngineReason;

    use super::fixture::engine;
    use super::*;

    #[test]
    fn a_rejection_is_reported_without_the_events_of_the_plan() {
        let case = engine("a").complete(0).serving(1).counting(Switching, 1, 0, None);
        let planned = case.plan().events;
        assert!(
            planned.iter().any(|event| event.severity == Severity::Normal),
            "{planned:?}"
        );
        let gate = Gate {
            cause: GateCause::WriteRefused,
            message: "The API server rejected it.".to_owned(),
        };
        let (status, events) = report_rejection(&case.input(), gate).unwrap();
        let reported = |reason: &str| reason == <&str>::from(EngineReason::WriteRefused);
        assert!(status.conditions.iter().any(|condition| reported(&condition.reason)));
        assert!(
            !events.is_empty() && events.iter().all(|event| reported(&event.reason)),
            "{events:?}"
        );
    }
}
