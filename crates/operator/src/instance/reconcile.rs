//! One reconcile of an instance: observe, plan, apply, report.

use firebolt_api::FireboltInstance;
use firebolt_core::compare::instance::{InstanceComparison, compare};
use firebolt_core::desired::instance::desired;
use firebolt_core::plan::Reads;
use firebolt_core::plan::instance::{Input, plan};
use firebolt_runtime::reconciler::{Outcome, Reconciler};
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;

use super::identity::fresh_id;
use super::observe::Observation;
use super::reconciler::{InstanceReconciler, Planned};
use super::state::{InstanceState, State};

impl Reconciler for InstanceReconciler {
    type Object = FireboltInstance;
    type State = InstanceState;

    async fn reconcile(&self, instance: &FireboltInstance, state: &mut State) -> Result<Outcome, ReconcileError> {
        let done = Box::pin(self.observe_to_report(instance, state)).await;
        if let Err(error) = &done {
            let event = Box::pin(self.apply_stuck(instance, error, state)).await;
            self.emit(instance, event.as_slice(), state);
        }
        done
    }

    fn forget(&self, instance: &ObjectKey) {
        self.context.caches.credentials.watch(instance, "", None);
    }
}

impl InstanceReconciler {
    async fn observe_to_report(
        &self,
        instance: &FireboltInstance,
        state: &mut State,
    ) -> Result<Outcome, ReconcileError> {
        let mut reads = Reads::Cached;
        // Each round reads more live than the one before: there are three at most.
        let planned = loop {
            let snapshot = match Box::pin(self.observe(instance, reads, state)).await? {
                Observation::Complete(snapshot) => *snapshot,
                Observation::CachesBehind(left) => return Ok(Outcome::Wait(left)),
            };
            let desired = desired(instance, &self.context.settings.defaults, snapshot.has_ipv6(instance));
            let InstanceComparison {
                observed,
                credentials_hash,
            } = compare(&desired.effective, &snapshot, &state.own.accepted);
            let (now, rejected) = (
                Timestamp::now(),
                state.own.rejections.standing(instance.metadata.generation),
            );
            let input = Input {
                instance,
                desired: &desired.for_plan,
                observed: &observed,
                limits: rejected.limits(state.drift.delay()),
                fresh_id: &fresh_id(now),
                now,
            };
            let plan = plan(&input);
            if let Some(more) = plan.reads_needed(&input, snapshot.reads) {
                reads = more;
                continue;
            }
            break Planned {
                snapshot,
                desired,
                observed,
                credentials_hash,
                plan,
            };
        };
        let applied = Box::pin(self.apply(instance, &planned, state)).await?;
        Ok(self.report(&planned, applied, state))
    }
}
