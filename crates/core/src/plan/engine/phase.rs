//! The result of a phase, and the functions that several phases share.

use std::time::Duration;

use firebolt_api::EnginePhase;

use super::input::{Desired, Input, StatefulSet};
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

/// Why a generation does not match the desired state, if it does not.
pub(super) fn drift(input: &Input, desired: &Desired, generation: i64) -> Option<String> {
    let name = input.names().stateful_set(generation);
    let seen = input.generation(generation);
    if seen.name_taken() {
        return Some(format!(
            "an object that the engine does not own already uses a name of generation {generation}"
        ));
    }
    let Some(set) = &seen.stateful_set else {
        return Some(format!("StatefulSet {name} is missing"));
    };
    if set.meta.terminating {
        return Some(format!("StatefulSet {name} is being deleted"));
    }
    if set.template_hash.as_ref() != Some(&desired.template_hash) {
        return Some(changes(input, set));
    }
    set.tampered
        .then(|| format!("StatefulSet {name} was modified by another client"))
}

/// The changes because of which a generation is outdated.
fn changes(input: &Input, set: &StatefulSet) -> String {
    // Replicas that another client changed are not those that were rendered.
    let replicas = (!set.tampered && set.replicas != input.replicas())
        .then(|| format!("`spec.replicas` changed from {} to {}", set.replicas, input.replicas()));
    let changes: Vec<&str> = replicas.iter().chain(&set.changes).map(String::as_str).collect();
    match changes.as_slice() {
        [] => "the operator renders the StatefulSet or ConfigMap differently, for example after an upgrade".to_owned(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first}, {second}"),
        [first, second, rest @ ..] => format!("{first}, {second}, and {} more", rest.len()),
    }
}

/// Applies the ConfigMap and the headless Service of a generation if they are missing or were changed. Only for a
/// generation that matches the desired state, from which both are rendered.
pub(super) fn repair(input: &Input, generation: i64) -> Vec<EngineWrite> {
    // One that is being deleted is created again once it is gone; until then a write would be lost.
    let broken = |child: &Option<ObservedChild>| {
        child
            .as_ref()
            .is_none_or(|child| child.meta.owned && !child.meta.terminating && !child.intact)
    };
    let seen = input.generation(generation);
    let config_map = broken(&seen.config_map).then_some(EngineWrite::ApplyConfigMap { generation });
    let headless = broken(&seen.headless_service).then_some(EngineWrite::ApplyHeadlessService { generation });
    config_map.into_iter().chain(headless).collect()
}

/// Whether a generation matches the desired state, as far as that is known.
pub(super) fn matches_desired(input: &Input, generation: i64) -> bool {
    let desired = input.desired.as_ref();
    desired.is_ok_and(|desired| drift(input, desired, generation).is_none())
}

/// Repairs the serving generation while an older one is drained: a long drain must not leave it broken.
pub(super) fn repair_serving(input: &Input, progress: Progress) -> Vec<EngineWrite> {
    let matches = matches_desired(input, progress.current);
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

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::Stable;

    use crate::plan::engine::fixture::engine;

    #[test]
    fn the_event_of_a_rollout_names_what_changed() {
        let event = |replicas: i32, changes: &[&str]| {
            let case = engine("a").serving(0).at(Stable).replicas(replicas).desired_hash("new");
            let case = case.set(0, |set| {
                set.changes = changes.iter().map(|&change| change.to_owned()).collect();
            });
            case.plan().events.remove(0).message
        };
        assert_eq!(
            event(2, &[]),
            "Rolling out generation 1: the operator renders the StatefulSet or ConfigMap differently, for example after an upgrade."
        );
        assert_eq!(
            event(3, &[]),
            "Rolling out generation 1: `spec.replicas` changed from 2 to 3."
        );
        assert_eq!(
            event(3, &["x"]),
            "Rolling out generation 1: `spec.replicas` changed from 2 to 3, x."
        );
        assert_eq!(
            event(2, &["w", "x", "y", "z"]),
            "Rolling out generation 1: w, x, and 2 more."
        );
    }
}
