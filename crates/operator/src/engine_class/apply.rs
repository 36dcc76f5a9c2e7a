//! The writes of a plan. Every prefix is a safe place to die.

use firebolt_api::FireboltEngineClass;
use firebolt_api::key::Finalizer;
use firebolt_core::plan::engine_class::{Plan, Write};

use crate::queue::Attempts;
use crate::write::{Nature, PassError, Writer};

/// What carries out the writes of one pass.
pub struct Apply<'a> {
    /// The writer; its root is the class as the writes left it.
    pub writer: Writer<'a, FireboltEngineClass>,
    /// How passes went so far.
    pub attempts: &'a mut Attempts,
    /// Whether the status says what was planned.
    pub said: bool,
}

impl Apply<'_> {
    /// Writes everything, the status last. All writes carry the version that they were decided from.
    pub async fn plan(&mut self, plan: &Plan) -> Result<(), PassError> {
        let decided_from = self.writer.root.status.clone();
        let written = self.all(&plan.writes).await;
        match written.as_ref().map_err(PassError::nature) {
            // A policy of the cluster that does not take the class as it is, not even with a finalizer more, is no reason to
            // keep silent about what is wrong with it.
            Ok(()) | Err(Nature::Refused(_)) => {}
            Err(Nature::Outdated | Nature::Transient { .. } | Nature::TermOver) => return written,
        }
        if let Some(status) = &plan.status {
            self.writer.status(status, decided_from.as_ref()).await?;
        }
        self.said = true;
        written
    }

    async fn all(&mut self, writes: &[Write]) -> Result<(), PassError> {
        for write in writes {
            let wanted = match write {
                Write::AddFinalizer => true,
                Write::RemoveFinalizer => false,
            };
            self.writer.finalizer(Finalizer::EngineClass, wanted).await?;
            self.attempts.progressed();
        }
        Ok(())
    }
}
