//! The result of a phase, and the functions that several phases share.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::drift::matches_desired;
use super::input::Input;
use super::output::EngineWrite;
use super::progress::Progress;
use super::{auto_stop, notice};
use crate::plan::ObservedChild;

/// The result of a phase.
#[derive(Debug)]
pub(super) struct Transition {
    pub progress: Progress,
    pub writes: Vec<EngineWrite>,
    /// Why the progress changed, as a sentence for an event.
    pub why: String,
    /// What caused the rollout that starts here, if one does.
    pub cause: Option<String>,
    pub requeue_after: Option<Duration>,
    /// The auto-stop decision, where one is made: for an engine that is stable and matches its spec, and for a stop
    /// that has not taken effect yet.
    pub auto_stop: Option<auto_stop::AutoStopDecision>,
}

impl Transition {
    pub(super) fn stay(progress: Progress, writes: Vec<EngineWrite>) -> Self {
        Self {
            progress,
            writes,
            why: String::new(),
            cause: None,
            requeue_after: None,
            auto_stop: None,
        }
    }

    /// Only the status changes; the next reconcile follows immediately and acts on it.
    pub(super) fn to(progress: Progress, why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            ..Self::stay(progress, Vec::new())
        }
    }

    /// A new generation is started. The cause becomes part of the status, because every condition of the rollout names it.
    pub(super) fn roll_out(progress: Progress, cause: String) -> Self {
        Self {
            why: rollout_message(progress.current, &cause),
            cause: Some(cause),
            ..Self::stay(progress, Vec::new())
        }
    }
}

/// The message that announces a rollout: which generation, and what caused it.
pub(super) fn rollout_message(generation: i64, cause: &str) -> String {
    format!("Rolling out generation {generation}: {cause}.")
}

/// Applies the ConfigMap and the headless Service of a generation if they are missing or were changed. Only for a
/// generation that matches the desired state, from which both are rendered. A
/// configuration that another version of the operator rendered is left as it is.
pub(super) fn repair(input: &Input, generation: i64) -> Vec<EngineWrite> {
    // One that is being deleted is created again once it is gone; until then a write would be lost.
    let broken = |child: &Option<ObservedChild>| {
        child
            .as_ref()
            .is_none_or(|child| child.meta.owned && !child.meta.terminating && !child.intact)
    };
    let seen = input.generation(generation);
    let is_outdated = seen.stateful_set.as_ref().is_some_and(|set| !set.outdated.is_empty());
    let config_map = (broken(&seen.config_map) && !is_outdated).then_some(EngineWrite::ApplyConfigMap {
        generation,
        copy_of: None,
    });
    let headless = broken(&seen.headless_service).then_some(EngineWrite::ApplyHeadlessService { generation });
    config_map.into_iter().chain(headless).collect()
}

/// Repairs the serving generation while an older one is drained: a long drain must not leave it broken.
pub(super) fn repair_serving(input: &Input, progress: Progress) -> Vec<EngineWrite> {
    let matches = matches_desired(input, progress);
    let mut writes = if matches {
        repair(input, progress.current)
    } else {
        Vec::new()
    };
    // If the old generation could serve better, the switch has already been undone.
    writes.extend(route(input, progress.current, None));
    writes
}

/// Points the routing Service to the preferred generation, if it does not select it already. It is never switched *to*
/// a generation without ready pods while all pods of the other one are ready, and to one without replicas only after
/// the stop notice. A Service that the engine does not own is not modified.
pub(super) fn route(input: &Input, preferred: i64, other: Option<i64>) -> Option<EngineWrite> {
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
    if notice::remaining(input, generation).is_some() {
        return None;
    }
    let up_to_date = at(generation) && routing.is_some_and(|routing| routing.intact);
    (!up_to_date).then_some(EngineWrite::ApplyRoutingService { generation })
}

/// The serving generation was lost while the old one can still serve: the switch is undone, and the lost generation is
/// created again, or abandoned like any other that never became ready.
///
/// A generation whose pods are merely not ready stays active as long as the routing Service selects it: Kubernetes
/// restarts pods, and switching back and forth would cost more than it saves.
pub(super) fn undo_switch(input: &Input, progress: Progress, old: i64) -> Option<Transition> {
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
        let lost = progress.current;
        let why = format!(
            "Generation {lost} no longer has a ready pod; switching queries back to generation {old} until generation \
             {lost} is ready again."
        );
        Transition::to(undone, why)
    })
}
