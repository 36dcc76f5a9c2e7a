//! The end of a reconcile: events, metrics, and when to reconcile again.

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::{EngineClassCondition, is_true};
use firebolt_core::plan::engine_class::Plan;
use firebolt_runtime::ReconcileError;
use firebolt_runtime::events::Event;
use firebolt_runtime::reconciler::Outcome;

use super::apply::ClassWriteOutcome;
use super::reconciler::EngineClassReconciler;
use super::state::State;

impl EngineClassReconciler {
    /// Reports what a reconcile has done. Its status is written, whether the other writes were rejected or not.
    pub(super) fn report(
        &self,
        before: &FireboltEngineClass,
        plan: &Plan,
        applied: ClassWriteOutcome,
        state: &mut State,
    ) -> Result<Outcome, ReconcileError> {
        let ClassWriteOutcome { class: after, rejected } = applied;
        let emitted = |event: &Event| self.metrics.kind.decided(&event.reason);
        self.shared.emit(&after, &plan.events, &mut state.events, emitted);
        if is_ready(&after) {
            state.events.reset();
        }
        if let Some(error) = rejected {
            return Err(error);
        }
        Ok(Outcome::Done {
            requeue_after: plan.requeue_after,
            throttle: plan.throttle,
            rejected: false,
            corrected_drift: plan.corrects_drift(before),
        })
    }
}

fn is_ready(class: &FireboltEngineClass) -> bool {
    let conditions = class.status.iter().flat_map(|status| &status.conditions);
    is_true(conditions, EngineClassCondition::Ready)
}
