//! All writes of a reconcile. Every prefix of the writes of a plan is a safe place to stop.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use firebolt_api::FireboltEngineClass;
use firebolt_api::key::Finalizer;
use firebolt_core::plan::engine_class::{ClassWrite, Plan};
use firebolt_runtime::reconciler::Backoff;
use firebolt_runtime::write::Writer;
use firebolt_runtime::{ErrorClass, ReconcileError};

use super::reconciler::EngineClassReconciler;
use super::state::State;

/// What became of a plan whose status is written.
pub(super) struct ClassWriteOutcome {
    /// The class after the writes.
    pub(super) class: FireboltEngineClass,
    /// Why the API server rejected one of the other writes.
    pub(super) rejected: Option<ReconcileError>,
}

impl EngineClassReconciler {
    /// Makes all writes, the status last. Each contains the resource version that it was planned from.
    pub(super) async fn apply(
        &self,
        class: &FireboltEngineClass,
        plan: &Plan,
        state: &mut State,
    ) -> Result<ClassWriteOutcome, ReconcileError> {
        let mut writer = Writer::new(&self.shared.access, class.clone(), &mut state.expectations);
        let written = write_all(&mut writer, &plan.writes, &mut state.backoff).await;
        let rejected = match written {
            Ok(()) => None,
            Err(error) => match error.class() {
                // An admission policy that rejects the class, even with nothing but one more finalizer, must not keep the
                // status from naming what is wrong with the class.
                ErrorClass::Rejected(_) => Some(error),
                ErrorClass::Conflict | ErrorClass::Transient { .. } | ErrorClass::NotLeader => return Err(error),
            },
        };
        if let Some(status) = &plan.status {
            writer.status(status, class.status.as_ref()).await?;
        }
        Ok(ClassWriteOutcome {
            class: writer.into_owner(),
            rejected,
        })
    }
}

async fn write_all(
    writer: &mut Writer<'_, FireboltEngineClass>,
    planned: &[ClassWrite],
    backoff: &mut Backoff,
) -> Result<(), ReconcileError> {
    for write in planned {
        let present = match write {
            ClassWrite::AddFinalizer => true,
            ClassWrite::RemoveFinalizer => false,
        };
        writer.set_finalizer(Finalizer::EngineClass.key(), present).await?;
        backoff.reset();
    }
    Ok(())
}
