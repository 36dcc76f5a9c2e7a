//! What the process keeps of an engine from one reconcile to the next. All of it can be lost: a restart costs a reconcile or
//! a sample more, and nothing else.

use std::time::Duration;

use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::desired::engine::DesiredEngine;
use firebolt_core::plan::engine::{Gate, GateCause, Limits, Rejected};
use firebolt_process::error::shortened;
use firebolt_runtime::reconciler::ObjectState;
use firebolt_runtime::{ErrorClass, ReconcileError};
use jiff::Timestamp;
use tokio::time::Instant;

use super::stateful_set_events::StatefulSetEvents;

/// How often a status is written of which only the wording is new.
const WORDING_INTERVAL: Duration = Duration::from_secs(2);
/// When an object that was rejected is sent again; doubles with each further rejection.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// The longest message of the API server that is reported.
const LONGEST_MESSAGE: usize = 1000;

/// The state of one engine.
pub(super) type State = ObjectState<FireboltEngine, EngineState>;

/// What engines add to it.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    /// Since when the routing Service has been observed to select another generation than the draining one.
    pub(super) unrouted_since: Option<Timestamp>,
    /// What the API server rejected last.
    pub(super) rejection: Option<Rejection>,
    /// Since when the engine has been in its phase, if this process saw the beginning.
    pub(super) phase: Option<(EnginePhase, Instant)>,
    /// When a status was last written.
    pub(super) status_written: Option<Instant>,
    /// The events of the current StatefulSet.
    pub(super) events: StatefulSetEvents,
}

/// A rendering that the API server rejected.
#[derive(Debug)]
pub(super) struct Rejection {
    template_hash: String,
    /// The gate that is closed because of it.
    gate: Gate,
    /// How often it was rejected before.
    attempts: u32,
    retry_at: Instant,
}

impl EngineState {
    /// The routing Service was observed.
    pub(super) fn observe_route(&mut self, unrouted: bool, now: Timestamp) {
        self.unrouted_since = unrouted.then(|| self.unrouted_since.unwrap_or(now));
    }

    /// What the next plan is limited to. `drift`: the delay after a reconcile that corrects drift.
    pub(super) fn limits(&mut self, desired: &DesiredEngine, drift: Option<Duration>) -> Limits<'_> {
        let rendered = desired.generation.as_ref().ok();
        // Another rendering is sent at once.
        self.rejection
            .take_if(|rejection| rendered.is_none_or(|rendered| rendered.template_hash != rejection.template_hash));
        let rejected = self.rejection.as_ref().map(|rejection| Rejected {
            template_hash: &rejection.template_hash,
            gate: &rejection.gate,
            retry_after: rejection.retry_at.saturating_duration_since(Instant::now()),
        });
        let written = self.status_written;
        Limits {
            rejected: rejected.filter(|rejected| !rejected.retry_after.is_zero()),
            wording: written.map_or(Duration::ZERO, |written| {
                WORDING_INTERVAL.saturating_sub(written.elapsed())
            }),
            drift,
        }
    }

    /// If the API server rejected what was rendered: the gate that is closed because of it, until it is sent again.
    pub(super) fn reject(&mut self, desired: &DesiredEngine, error: &ReconcileError) -> Option<Gate> {
        let (ErrorClass::Rejected(message), ReconcileError::Write { verb, kind, object, .. }) = (error.class(), error)
        else {
            return None;
        };
        if kind.starts_with("FireboltEngine") {
            return None;
        }
        let gate = Gate {
            cause: GateCause::WriteRefused,
            message: format!(
                "The API server rejected the request to {verb} {kind} {}: {}. Correct the spec of the engine or its class, or \
                 the policy or quota that rejects it; the operator keeps trying.",
                object.name,
                shortened(message.trim_end_matches('.'), LONGEST_MESSAGE)
            ),
        };
        if let Ok(rendered) = &desired.generation {
            let before = self.rejection.take();
            let before = before.filter(|before| before.template_hash == rendered.template_hash);
            let attempts = before.map_or(0, |before| before.attempts + 1);
            let delay = FIRST_RETRY.saturating_mul(1 << attempts.min(10)).min(LONGEST_RETRY);
            self.rejection = Some(Rejection {
                template_hash: rendered.template_hash.clone(),
                gate: gate.clone(),
                attempts,
                retry_at: Instant::now() + delay,
            });
        }
        Some(gate)
    }

    /// Everything was written that was rendered.
    pub(super) fn accepted(&mut self) {
        let due = |rejection: &mut Rejection| rejection.retry_at <= Instant::now();
        self.rejection.take_if(due);
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
