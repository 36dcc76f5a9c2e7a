//! What the newest generation has to be, and whether it is that.

use super::input::{Adoption, GateCause, Generation, Input, StatefulSet};
use super::progress::Progress;

/// Why a generation is replaced although no input has changed.
pub const ADOPTS_RENDERING: &str = "adopting the rendering of this version of the operator (--upgrade-policy=Rolling)";

/// What the newest generation has to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    template_hash: Option<&'a str>,
    /// The generation whose pods it copies, because nothing can be rendered.
    pub copy_of: Option<i64>,
}

/// The desired state; or, while a gate prevents it from being rendered, what ran last with another number of pods. A gate
/// holds up a changed template and nothing else: an engine can always be stopped. Without its instance it cannot be started
/// or scaled, because its pods would not become ready.
pub(super) fn target<'a>(input: &Input<'a>, before: Progress) -> Option<Target<'a>> {
    let gate = match input.desired {
        Ok(desired) => {
            return Some(Target {
                template_hash: Some(&desired.template_hash),
                copy_of: None,
            });
        }
        Err(gate) => gate,
    };
    let stops = input.replicas() == 0;
    let active = before
        .active
        .filter(|&active| input.generation(active).live_set().is_some());
    let source = active.or(stops.then_some(before.current))?;
    let seen = input.generation(source);
    let set = seen.live_set()?;
    let copy = |template_hash: Option<&'a String>| Target {
        template_hash: template_hash.map(String::as_str),
        copy_of: Some(source),
    };
    let target = match input.generation(before.current).live_set() {
        // It runs already.
        Some(_) if source == before.current && set.replicas == input.replicas() => None,
        // It is on its way; one without pods is like any other.
        Some(newest) if newest.replicas == input.replicas() => {
            (stops || newest.template_hash == set.template_hash).then(|| copy(newest.template_hash.as_ref()))
        }
        None if set.replicas == input.replicas() => None,
        Some(_) | None => Some(copy(set.template_hash.as_ref())),
    };
    let allowed = match gate.cause {
        GateCause::InstanceNotReady | GateCause::WriteRefused => stops,
        GateCause::ClassUnready | GateCause::TemplateRejected | GateCause::BoundsExceeded => {
            stops || seen.config_map.is_some()
        }
    };
    target.filter(|_| allowed)
}

/// Why a generation is not what it has to be, if it is not.
pub(super) fn drift(input: &Input, target: &Target, generation: i64) -> Option<String> {
    let name = input.names().stateful_set(generation);
    let seen = input.generation(generation);
    if input.name_taken(generation) {
        return Some(format!("another object already uses a name of generation {generation}"));
    }
    let Some(set) = &seen.stateful_set else {
        return Some(format!("StatefulSet {name} is missing"));
    };
    if set.meta.terminating {
        return Some(format!("StatefulSet {name} is being deleted"));
    }
    let is_scaled = !set.tampered && set.replicas != input.replicas();
    if set.template_hash.as_deref() != target.template_hash || is_scaled {
        return Some(changes(input, set));
    }
    if set.tampered {
        return Some(format!("StatefulSet {name} was modified by another client"));
    }
    if set.outdated.is_empty() || target.copy_of.is_some() {
        return None;
    }
    lost_config(input, seen, generation)
        .or_else(|| (input.limits.adoption == Adoption::Now).then(|| ADOPTS_RENDERING.to_owned()))
}

/// Whether a generation is the desired one, as far as that is known.
pub(super) fn matches_desired(input: &Input, progress: Progress) -> bool {
    let target = target(input, progress).filter(|target| target.copy_of.is_none());
    target.is_some_and(|target| drift(input, &target, progress.current).is_none())
}

/// The configuration of a generation that another version of the operator rendered cannot be restored.
fn lost_config(input: &Input, seen: &Generation, generation: i64) -> Option<String> {
    let name = input.names().config_map(generation);
    let lost = match &seen.config_map {
        None => "is missing",
        Some(child) if child.meta.owned && !child.meta.terminating && !child.intact => "was modified by another client",
        Some(_) => return None,
    };
    Some(format!(
        "ConfigMap {name} {lost}, and another version of the operator rendered it"
    ))
}

/// The changes because of which a generation is outdated.
fn changes(input: &Input, set: &StatefulSet) -> String {
    // Replicas that another client changed are not those that were rendered.
    let replicas = (!set.tampered && set.replicas != input.replicas())
        .then(|| format!("`spec.replicas` changed from {} to {}", set.replicas, input.replicas()));
    let changes: Vec<&str> = replicas.iter().chain(&set.changes).map(String::as_str).collect();
    match changes.as_slice() {
        [] => "a setting changed that the pods do not show".to_owned(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first}, {second}"),
        [first, second, rest @ ..] => format!("{first}, {second}, and {} more", rest.len()),
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
