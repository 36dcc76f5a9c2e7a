//! The progress of a rollout.

use firebolt_api::{EnginePhase, FireboltEngineStatus};

/// The part of the status that the phase machine changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    pub phase: EnginePhase,
    /// The newest generation.
    pub current: i64,
    /// The one that serves queries. The status has -1 for none.
    pub active: Option<i64>,
    /// The one that is being drained.
    pub draining: Option<i64>,
}

impl Progress {
    pub(super) fn of(status: &FireboltEngineStatus) -> Option<Self> {
        Some(Self {
            phase: status.phase?,
            current: status.current_generation,
            active: Some(status.active_generation).filter(|&active| active >= 0),
            draining: status.draining_generation,
        })
    }

    pub(super) fn is_terminal(self) -> bool {
        match self.phase {
            EnginePhase::Stable | EnginePhase::Stopped => true,
            EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => false,
        }
    }

    /// The rollout is complete.
    pub(super) fn finished(self, replicas: i32) -> Self {
        Self {
            phase: terminal_phase(replicas),
            draining: None,
            ..self
        }
    }

    /// Starts a new generation. This number is persisted before anything is created for it.
    pub(super) fn next_generation(self) -> Self {
        Self {
            phase: EnginePhase::Creating,
            current: self.current.saturating_add(1),
            ..self
        }
    }

    pub(super) fn at(self, phase: EnginePhase) -> Self {
        Self { phase, ..self }
    }
}

/// The final phase of a rollout with this number of replicas. The only function that distinguishes the two.
#[must_use]
pub(crate) fn terminal_phase(replicas: i32) -> EnginePhase {
    if replicas == 0 {
        EnginePhase::Stopped
    } else {
        EnginePhase::Stable
    }
}
