//! One reconcile of an instance: observe, plan, apply, report.

use firebolt_api::FireboltInstance;
use firebolt_core::compare::instance::compare;
use firebolt_core::desired::instance::desired;
use firebolt_core::plan::Reads;
use firebolt_core::plan::instance::{Input, plan};
use firebolt_runtime::reconciler::{Outcome, Reconciler};
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;

use super::reconciler::{InstanceReconciler, Planned};
use super::state::{InstanceState, State};
use crate::observation::Observation;
use crate::random::fresh_id;

impl Reconciler for InstanceReconciler {
    type Object = FireboltInstance;
    type State = InstanceState;

    async fn reconcile(&self, instance: &FireboltInstance, state: &mut State) -> Result<Outcome, ReconcileError> {
        let settings = &self.shared.context.settings;
        let mut reads = Reads::Cached;
        // Each round reads more live than the one before: there are three at most.
        let planned = loop {
            let snapshot = match Box::pin(self.observe(instance, reads, state)).await? {
                Observation::Complete(snapshot) => *snapshot,
                Observation::CachesBehind(left) => return Ok(Outcome::Wait(left)),
            };
            let desired = desired(instance, &settings.defaults, snapshot.has_ipv6(instance));
            let comparison = compare(instance, &desired.effective, &snapshot, &state.own.accepted);
            let standing = state.own.rejections.standing(instance.metadata.generation);
            let input = Input {
                instance,
                desired: &desired.for_plan,
                observed: &comparison.observed,
                limits: standing.limits(state.drift.delay()),
                fresh_id: &fresh_id(snapshot.at),
                now: snapshot.at,
            };
            let plan = plan(&input);
            match plan.reads_needed(&input, snapshot.reads) {
                Some(more) => reads = more,
                None => {
                    break Planned {
                        snapshot,
                        desired,
                        comparison,
                        plan,
                    };
                }
            }
        };
        if planned.snapshot.reads != Reads::Cached {
            state.expectations.reset();
        }
        let applied = Box::pin(self.apply(instance, &planned, state)).await?;
        Ok(self.report(&planned, applied, state))
    }

    async fn failed(&self, instance: &FireboltInstance, error: &ReconcileError, state: &mut State) {
        let event = Box::pin(self.apply_stuck(instance, error, Timestamp::now(), state)).await;
        self.emit(instance, event.as_slice(), state);
    }

    fn forget(&self, instance: &ObjectKey) {
        self.shared.context.caches.credentials.watch(instance, "", None);
    }
}
