//! What the process keeps of an engine from one reconcile to the next. All of it can be lost: a restart costs a reconcile or
//! a sample more, and nothing else.

use std::time::Duration;

use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::compare::engine::EngineObjects;
use firebolt_core::desired::engine::DesiredEngine;
use firebolt_core::plan::engine::{Adoption, Gate, GateCause, Limits, RefusedDelete, Rejected, StatefulSetWarning};
use firebolt_runtime::ReconcileError;
use firebolt_runtime::reconciler::{ObjectState, RejectionBackoff};
use jiff::Timestamp;
use tokio::time::Instant;

use super::refused_deletes::RefusedDeletes;
use crate::events::rejection;

/// How often a status is written of which only the wording is new.
const WORDING_INTERVAL: Duration = Duration::from_secs(2);
/// The state of one engine.
pub(super) type State = ObjectState<FireboltEngine, EngineState>;

/// What engines add to it.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    /// Since when the routing Service has been observed to select another generation than the draining one.
    pub(super) unrouted_since: Option<Timestamp>,
    /// What the API server rejected last.
    pub(super) rejection: Option<Rejection>,
    /// The deletes that the API server rejected.
    pub(super) refused_deletes: RefusedDeletes,
    /// The same, as the last plan got them.
    refused_for_plan: Vec<RefusedDelete>,
    /// Since when the engine has been in its phase, if this process saw the beginning.
    pub(super) phase: Option<(EnginePhase, Instant)>,
    /// When a status was last written.
    pub(super) status_written: Option<Instant>,
    /// The newest Warning event of the current StatefulSet, as last listed.
    pub(super) warning: Option<ListedWarning>,
}

/// The newest Warning event of a StatefulSet.
#[derive(Debug)]
pub(super) struct ListedWarning {
    /// The UID of the StatefulSet.
    pub(super) uid: String,
    /// When its events were listed.
    pub(super) at: Instant,
    pub(super) newest: Option<StatefulSetWarning>,
}

/// A rendering that the API server rejected.
#[derive(Debug)]
pub(super) struct Rejection {
    identity: String,
    /// The gate that is closed because of it.
    gate: Gate,
    backoff: RejectionBackoff,
    /// The last plan may send it again.
    may_be_sent: bool,
}

impl EngineState {
    /// The routing Service was observed.
    pub(super) fn observe_route(&mut self, unrouted: bool, now: Timestamp) {
        self.unrouted_since = unrouted.then(|| self.unrouted_since.unwrap_or(now));
    }

    /// A plan is about to be made: drops the rejection of another rendering, and notes whether the plan may send a rejected
    /// one again. Returns what the plan is limited to. `drift`: the delay after a reconcile that corrects drift.
    pub(super) fn begin_plan(
        &mut self,
        desired: &DesiredEngine,
        objects: &EngineObjects,
        drift: Option<Duration>,
    ) -> Limits<'_> {
        self.refused_deletes.retain(objects);
        self.refused_for_plan = self.refused_deletes.for_plan();
        let identity = identity(desired);
        // Another rendering is sent at once.
        self.rejection
            .take_if(|rejection| identity.as_ref() != Some(&rejection.identity));
        let remaining = self
            .rejection
            .as_ref()
            .and_then(|rejection| rejection.backoff.remaining());
        if let Some(rejection) = &mut self.rejection {
            rejection.may_be_sent = remaining.is_none();
        }
        let written = self.status_written;
        Limits {
            rejected: self
                .rejection
                .as_ref()
                .zip(remaining)
                .map(|(rejection, retry_after)| Rejected {
                    identity: &rejection.identity,
                    gate: &rejection.gate,
                    retry_after,
                }),
            wording: written.map_or(Duration::ZERO, |written| {
                WORDING_INTERVAL.saturating_sub(written.elapsed())
            }),
            drift,
            adoption: Adoption::OnNextChange,
            refused_deletes: &self.refused_for_plan,
        }
    }

    /// If the API server rejected what was rendered: the gate that is closed because of it, until it is sent again.
    pub(super) fn reject(&mut self, desired: &DesiredEngine, error: &ReconcileError) -> Option<Gate> {
        let rejected = error.rejected_write();
        let rejected = rejected.filter(|rejected| !rejected.kind.starts_with("FireboltEngine"))?;
        let gate = Gate {
            cause: GateCause::WriteRefused,
            message: rejection(&rejected, "the engine or its class"),
        };
        if let Some(identity) = identity(desired) {
            let before = self.rejection.take();
            let before = before.filter(|before| before.identity == identity);
            self.rejection = Some(Rejection {
                identity,
                gate: gate.clone(),
                backoff: RejectionBackoff::after(before.map(|before| before.backoff)),
                may_be_sent: false,
            });
        }
        Some(gate)
    }

    /// Everything was written that was rendered.
    pub(super) fn accepted(&mut self) {
        self.rejection.take_if(|rejection| rejection.may_be_sent);
    }
}

/// Identifies what would be rendered now.
fn identity(desired: &DesiredEngine) -> Option<String> {
    let rendered = desired.generation.as_ref().ok()?;
    Some(rendered.identity(desired.effective.replicas))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
