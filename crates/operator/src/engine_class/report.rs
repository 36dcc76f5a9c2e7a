//! The end of a reconcile: events, metrics, and when to reconcile again.

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::{EngineClassCondition, is_true};
use firebolt_core::plan::engine_class::Plan;
use firebolt_runtime::ReconcileError;
use firebolt_runtime::reconciler::Outcome;
use kube::Resource;

use super::apply::ClassWriteOutcome;
use super::reconciler::EngineClassReconciler;
use super::state::State;
use crate::events::from_plan;

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
        let (object, planned) = (after.object_ref(&()), from_plan(&plan.events));
        self.recorder.emit_new(&object, &planned, &mut state.events, |event| {
            self.metrics.kind.decided(&event.reason);
        });
        if is_ready(&after) {
            state.events.reset();
        }
        if let Some(error) = rejected {
            return Err(error);
        }
        if plan.corrects_drift(before) {
            state.drift.corrected();
        }
        Ok(Outcome::Done {
            requeue_after: plan.requeue_after,
            throttle: plan.throttle,
            rejected: false,
        })
    }
}

fn is_ready(class: &FireboltEngineClass) -> bool {
    let conditions = class.status.iter().flat_map(|status| &status.conditions);
    is_true(conditions, EngineClassCondition::Ready)
}
