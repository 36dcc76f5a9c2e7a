//! Where a rollout stands, and the questions that several phases ask.

use std::time::Duration;

use firebolt_api::{EnginePhase, FireboltEngineStatus};

use super::input::{Desired, Input};
use super::output::Write;
use super::{auto_stop, notice};
use crate::plan::Child;

/// The part of the status that the phase machine moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    pub phase: EnginePhase,
    /// The newest generation.
    pub current: i64,
    /// The one that serves. The status says -1 for none.
    pub active: Option<i64>,
    /// The one that finishes its queries.
    pub draining: Option<i64>,
}

impl Progress {
    pub fn of(status: &FireboltEngineStatus) -> Option<Self> {
        Some(Self {
            phase: status.phase?,
            current: status.current_generation,
            active: Some(status.active_generation).filter(|&active| active >= 0),
            draining: status.draining_generation,
        })
    }

    pub fn is_terminal(self) -> bool {
        match self.phase {
            EnginePhase::Stable | EnginePhase::Stopped => true,
            EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => false,
        }
    }

    /// The rollout is over.
    pub fn finished(self, replicas: i32) -> Self {
        Self {
            phase: terminal_phase(replicas),
            draining: None,
            ..self
        }
    }

    /// A new generation is wanted. Persisting this number comes before creating anything under it.
    pub fn next_generation(self) -> Self {
        Self {
            phase: EnginePhase::Creating,
            current: self.current.saturating_add(1),
            ..self
        }
    }

    pub fn at(self, phase: EnginePhase) -> Self {
        Self { phase, ..self }
    }
}

/// Where a rollout of so many replicas ends. The only place that tells the two ends apart.
#[must_use]
pub fn terminal_phase(replicas: i32) -> EnginePhase {
    if replicas == 0 {
        EnginePhase::Stopped
    } else {
        EnginePhase::Stable
    }
}

/// What a phase decides.
#[derive(Debug)]
pub(super) struct Step {
    pub progress: Progress,
    pub writes: Vec<Write>,
    /// Why the progress changed, as a sentence; told as an event.
    pub why: String,
    pub look_again: Option<Duration>,
    /// What auto-stop decides, where it is asked: for an engine at rest that matches its specification, and for a stop
    /// that has not taken effect yet.
    pub auto_stop: Option<auto_stop::Decision>,
}

impl Step {
    pub fn stay(progress: Progress, writes: Vec<Write>) -> Self {
        Self {
            progress,
            writes,
            why: String::new(),
            look_again: None,
            auto_stop: None,
        }
    }

    /// Only the status changes; the next pass follows at once and acts on it.
    pub fn go(progress: Progress, why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            ..Self::stay(progress, Vec::new())
        }
    }
}

/// Why a generation is not what is desired, if it is not.
pub(super) fn drift(input: &Input, desired: &Desired, generation: i64) -> Option<String> {
    let name = input.names().stateful_set(generation);
    let seen = input.generation(generation);
    if seen.name_taken() {
        return Some(format!(
            "an object of somebody else has a name of generation {generation}"
        ));
    }
    let Some(set) = &seen.stateful_set else {
        return Some(format!("StatefulSet {name} is gone"));
    };
    if set.meta.terminating {
        return Some(format!("StatefulSet {name} is being deleted"));
    }
    if set.fingerprint.as_ref() != Some(&desired.fingerprint) {
        return Some("its specification or class changed".to_owned());
    }
    set.tampered
        .then(|| format!("StatefulSet {name} was changed by somebody else"))
}

/// Writes the ConfigMap and the headless Service of a generation where they are missing or changed. Only for a
/// generation that matches what is desired: these two are rendered from it.
pub(super) fn repair(input: &Input, generation: i64) -> Vec<Write> {
    // One that is being deleted comes back once it is gone; until then a write would be lost with it.
    let broken = |child: &Option<Child>| {
        child
            .as_ref()
            .is_none_or(|child| child.meta.owned && !child.meta.terminating && !child.intact)
    };
    let seen = input.generation(generation);
    let config_map = broken(&seen.config_map).then_some(Write::ApplyConfigMap { generation });
    let headless = broken(&seen.headless_service).then_some(Write::ApplyHeadlessService { generation });
    config_map.into_iter().chain(headless).collect()
}

/// A generation is what is desired, as far as that is known.
pub(super) fn matches_desired(input: &Input, generation: i64) -> bool {
    let desired = input.desired.as_ref();
    desired.is_ok_and(|desired| drift(input, desired, generation).is_none())
}

/// What keeps the serving generation whole while an older one is given up: a long drain must not leave it broken.
pub(super) fn mend(input: &Input, progress: Progress) -> Vec<Write> {
    let matches = matches_desired(input, progress.current);
    let mut writes = if matches {
        repair(input, progress.current)
    } else {
        Vec::new()
    };
    // Where the old generation would serve better, the switch has been undone before it comes to this.
    writes.extend(route(input, progress.current, None));
    writes
}

/// Points the routing Service at the preferred generation, if it is not there already. It never *goes* to a generation
/// without ready pods while the other one has all of its pods ready, and to one that is to have none only after the
/// notice of the stop. A Service of somebody else is left alone.
pub(super) fn route(input: &Input, preferred: i64, other: Option<i64>) -> Option<Write> {
    let routing = input.observed.routing.as_ref();
    if routing.is_some_and(|routing| !routing.meta.owned || routing.meta.terminating) {
        return None;
    }
    let at = |generation| routing.is_some_and(|routing| routing.target == Some(generation));
    let better = other.filter(|&other| {
        let other = input.generation(other);
        !at(preferred) && other.any_ready() && other.all_ready() && input.generation(preferred).unserved()
    });
    let generation = better.unwrap_or(preferred);
    if notice::rest(input, generation).is_some() {
        return None;
    }
    let whole = at(generation) && routing.is_some_and(|routing| routing.intact);
    (!whole).then_some(Write::ApplyRoutingService { generation })
}

/// The serving generation was lost while the old one can still serve: the switch is undone, and the lost generation is
/// created again or given up like any other that never became ready.
///
/// A generation whose pods are merely not ready keeps its place as long as the routing Service selects it: Kubernetes
/// brings pods back, and going to and fro would cost more than it saves.
pub(super) fn undo_switch(input: &Input, progress: Progress, old: i64) -> Option<Step> {
    let current = input.generation(progress.current);
    let lost = (current.live_set().is_none() || current.emptied()) && input.generation(old).any_ready();
    let unroutable = input.routed_to() != Some(progress.current)
        && current.unserved()
        && input.generation(old).any_ready()
        && input.generation(old).all_ready();
    (lost || unroutable).then(|| {
        let undone = Progress {
            phase: EnginePhase::Creating,
            current: progress.current,
            active: Some(old),
            draining: None,
        };
        let why = format!(
            "Generation {} has no ready pod any more; generation {old} serves again until it has.",
            progress.current
        );
        Step::go(undone, why)
    })
}
