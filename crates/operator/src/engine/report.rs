//! The end of a reconcile: events, metrics, probes, and when to reconcile again.

use std::time::Duration;

use firebolt_api::condition::{EngineCondition, EngineReason, is_true};
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngine};
use firebolt_core::plan::engine::{EngineWrite, Plan, STATUS_RECOVERED, WAKE_IGNORED};
use firebolt_core::plan::{EXTERNAL_FINALIZER, PlannedEvent, Severity};
use firebolt_runtime::reconciler::Outcome;
use firebolt_runtime::{ObjectKey, ReconcileError, events};
use jiff::Timestamp;
use kube::ResourceExt;
use strum::IntoEnumIterator;
use tokio::time::Instant;

use super::apply::{EngineWriteOutcome, WriteFailure};
use super::phase;
use super::reconciler::{EngineReconciler, Planned};
use super::state::State;
use crate::probe;

impl EngineReconciler {
    /// Reports what a reconcile has done.
    pub(super) fn report(
        &self,
        before: &FireboltEngine,
        planned: &Planned,
        applied: EngineWriteOutcome,
        state: &mut State,
    ) -> Result<Outcome, ReconcileError> {
        let EngineWriteOutcome {
            engine: after,
            scaled,
            refused_delete,
            failure,
        } = applied;
        let plan = &planned.plan;
        self.upgrades.reconciled(&after, planned.adoption);
        if let Some(WriteFailure { error, events }) = failure {
            if scaled {
                // It has happened, and the next reconcile cannot know why.
                self.emit(&after, &plan.events, state);
                self.measure_wake(&after, planned);
            }
            self.emit(&after, &events, state);
            return Err(error);
        }
        if planned.desired.generation.is_ok() {
            state.own.accepted();
        }
        self.emit(&after, &plan.events, state);
        if is_well(&after) && !plan.events.iter().any(is_warning) {
            state.events.reset();
        }
        self.measure_phase(before, &after, state);
        self.measure_wake(&after, planned);
        let assignment = probe::assignment(&after, &planned.desired, state.own.unrouted_since.is_some());
        self.probes.assign(&ObjectKey::of(before), assignment);
        if let Some(error) = refused_delete {
            return Ok(Outcome::Rejected(error));
        }
        Ok(Outcome::Done {
            requeue_after: plan.requeue_after,
            throttle: plan.throttle,
            rejected: state.own.rejection.is_some() || !state.own.refused_deletes.is_empty(),
            corrected_drift: plan.corrects_drift(),
        })
    }

    fn measure_phase(&self, before: &FireboltEngine, after: &FireboltEngine, state: &mut State) {
        if let Some(now_in) = phase(after)
            && phase(before) != Some(now_in)
        {
            let since = state.own.phase.replace((now_in, Instant::now()));
            if let Some((left, since)) = since.filter(|(left, _)| phase(before) == Some(*left) && is_rolling(*left)) {
                self.metrics.left(left, since.elapsed());
            }
        }
    }

    fn measure_wake(&self, engine: &FireboltEngine, planned: &Planned) {
        if let Some(waited) = woken_after(engine, &planned.plan, planned.snapshot.at) {
            self.metrics.woke(waited);
        }
    }

    fn emit(&self, engine: &FireboltEngine, events: &[PlannedEvent], state: &mut State) {
        let emitted = |event: &events::Event| {
            self.metrics.kind.decided(decision(event));
            if event.reason == WAKE_IGNORED {
                self.metrics.ignored_a_wake();
            }
        };
        self.shared.emit(engine, events, &mut state.events, emitted);
    }
}

fn is_rolling(phase: EnginePhase) -> bool {
    match phase {
        EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => true,
        EnginePhase::Stable | EnginePhase::Stopped => false,
    }
}

/// Nothing needs attention.
fn is_well(engine: &FireboltEngine) -> bool {
    let conditions = engine.status.iter().flat_map(|status| &status.conditions);
    is_true(conditions, EngineCondition::Ready) || phase(engine) == Some(EnginePhase::Stopped)
}

fn is_warning(event: &PlannedEvent) -> bool {
    match event.severity {
        Severity::Warning => true,
        Severity::Normal => false,
    }
}

/// The reason by which an event is counted. Others may emit events with any number of reasons.
fn decision(event: &events::Event) -> &str {
    const WARNINGS: [&str; 3] = [WAKE_IGNORED, STATUS_RECOVERED, EXTERNAL_FINALIZER];
    let reason = event.reason.as_str();
    let is_warning = event.type_ == events::EventType::Warning;
    let known = WARNINGS.contains(&reason) || EngineReason::iter().any(|own| reason == <&str>::from(own));
    if known || !is_warning {
        reason
    } else {
        EngineReason::StatefulSetWarning.into()
    }
}

/// How long after the request the engine was woken, if this reconcile did it.
fn woken_after(engine: &FireboltEngine, plan: &Plan, now: Timestamp) -> Option<Duration> {
    let grown = plan
        .writes
        .iter()
        .any(|write| matches!(write, EngineWrite::SetReplicas { from, to, .. } if to > from));
    let status = plan.status.as_ref().filter(|_| grown)?;
    if status.auto_stop_reason != Some(AutoStopReason::WakeRequested) {
        return None;
    }
    let requested: Timestamp = engine
        .annotations()
        .get(Annotation::WakeRequested.key())?
        .parse()
        .ok()?;
    Some(Duration::try_from(now.duration_since(requested)).unwrap_or_default())
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
