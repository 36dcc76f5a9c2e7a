//! One reconcile of a class: observe, plan, apply, report.

use firebolt_api::FireboltEngineClass;
use firebolt_core::plan::Reads;
use firebolt_core::plan::engine_class::{Input, Limits, plan};
use firebolt_runtime::ReconcileError;
use firebolt_runtime::reconciler::{Outcome, Reconciler};

use super::reconciler::EngineClassReconciler;
use super::state::State;

impl Reconciler for EngineClassReconciler {
    type Object = FireboltEngineClass;
    type State = ();

    async fn reconcile(&self, class: &FireboltEngineClass, state: &mut State) -> Result<Outcome, ReconcileError> {
        let mut reads = Reads::Cached;
        // Each round reads more live than the one before: there are two at most.
        let plan = loop {
            let observed = self.observe(class, reads).await?;
            let input = Input {
                class,
                observed: &observed,
                limits: Limits {
                    drift: state.drift.delay(),
                },
            };
            let plan = plan(&input);
            match plan.reads_needed(reads) {
                Some(more) => reads = more,
                None => break plan,
            }
        };
        let applied = self.apply(class, &plan, state).await?;
        self.report(class, &plan, applied, state)
    }
}
