//! One reconcile of an engine: observe, plan, apply, report.

use firebolt_api::FireboltEngine;
use firebolt_core::compare::engine::compare;
use firebolt_core::desired::engine::desired;
use firebolt_core::plan::Reads;
use firebolt_core::plan::engine::{Limits, plan};
use firebolt_runtime::reconciler::{Outcome, Reconciler};
use firebolt_runtime::{ObjectKey, ReconcileError};

use super::reconciler::{EngineReconciler, Planned};
use super::state::{EngineState, State};
use crate::observation::Observation;

impl Reconciler for EngineReconciler {
    type Object = FireboltEngine;
    type State = EngineState;

    async fn reconcile(&self, engine: &FireboltEngine, state: &mut State) -> Result<Outcome, ReconcileError> {
        let settings = &self.shared.context.settings;
        let mut reads = Reads::Cached;
        // Each round reads more live than the one before: there are three at most.
        let planned = loop {
            let snapshot = match Box::pin(self.observe(engine, reads, state)).await? {
                Observation::Complete(snapshot) => *snapshot,
                Observation::CachesBehind(left) => return Ok(Outcome::Wait(left)),
            };
            let desired = desired(engine, &snapshot.references, &settings.defaults, &settings.bounds);
            let observed = compare(engine, &desired, &snapshot);
            let engines = self.shared.context.caches.engines.store();
            let adoption = self.upgrades.permit(settings.upgrades, engine, &observed, engines);
            let limits = Limits {
                adoption,
                ..state.own.begin_plan(&desired, &snapshot.objects, state.drift.delay())
            };
            let input = self.input(engine, &desired, &observed, snapshot.at, limits);
            let plan = plan(&input);
            match plan.reads_needed(&input, snapshot.reads) {
                Some(more) => reads = more,
                None => {
                    break Planned {
                        snapshot,
                        desired,
                        observed,
                        plan,
                        adoption,
                    };
                }
            }
        };
        // Not before: a failed write is known until the last round has read live what may be in its way.
        if planned.snapshot.reads != Reads::Cached {
            state.expectations.reset();
        }
        let applied = Box::pin(self.apply(engine, &planned, state)).await;
        self.report(engine, &planned, applied, state)
    }

    fn forget(&self, engine: &ObjectKey) {
        self.upgrades.forget(engine);
        self.probes.forget(engine);
    }

    fn unreadable(&self, engine: &ObjectKey) {
        self.probes.assign(engine, None);
    }
}
