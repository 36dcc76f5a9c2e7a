//! The end of a reconcile: events, metrics, and when to reconcile again.

use firebolt_api::FireboltInstance;
use firebolt_api::condition::{InstanceCondition, is_true};
use firebolt_core::plan::PlannedEvent;
use firebolt_core::plan::instance::Component;
use firebolt_runtime::events;
use firebolt_runtime::reconciler::Outcome;
use strum::IntoEnumIterator;
use tokio::time::Instant;

use super::apply::InstanceWriteOutcome;
use super::reconciler::{InstanceReconciler, Planned};
use super::state::State;

impl InstanceReconciler {
    /// Reports what a reconcile has done.
    pub(super) fn report(&self, planned: &Planned, applied: InstanceWriteOutcome, state: &mut State) -> Outcome {
        let after = match applied {
            InstanceWriteOutcome::Complete(after) => after,
            InstanceWriteOutcome::Rejected(error) => return Outcome::Rejected(error),
        };
        let plan = &planned.plan;
        self.emit(&after, &plan.events, state);
        self.measure_readiness(&after, planned, state);
        if holds(&after, InstanceCondition::Ready) {
            state.events.reset();
        }
        Outcome::Done {
            requeue_after: plan.requeue_after,
            throttle: plan.throttle,
            rejected: !state.own.rejections.is_empty(),
            corrected_drift: !plan.writes.is_empty(),
        }
    }

    fn measure_readiness(&self, after: &FireboltInstance, planned: &Planned, state: &mut State) {
        for component in Component::iter() {
            let is_ready = match component {
                Component::Postgres => {
                    let workload = planned.comparison.observed.workloads.get(&component);
                    workload.is_none_or(|workload| workload.serves(component))
                }
                Component::Metadata => holds(after, InstanceCondition::MetadataReady),
                Component::Gateway => holds(after, InstanceCondition::GatewayReady),
            };
            if !is_ready {
                state.own.waiting_since.entry(component).or_insert_with(Instant::now);
            } else if let Some(since) = state.own.waiting_since.remove(&component) {
                self.metrics.became_ready(component, since.elapsed());
            }
        }
    }

    pub(super) fn emit(&self, instance: &FireboltInstance, events: &[PlannedEvent], state: &mut State) {
        let emitted = |event: &events::Event| self.metrics.kind.decided(&event.reason);
        self.shared.emit(instance, events, &mut state.events, emitted);
    }
}

fn holds(instance: &FireboltInstance, condition: InstanceCondition) -> bool {
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    is_true(conditions, condition)
}
