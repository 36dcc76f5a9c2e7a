//! The `Ready` condition. The first rule of an ordered list that applies decides.

use firebolt_api::EnginePhase;
use firebolt_api::condition::EngineReason;
use jiff::SignedDuration;

use super::draining::counting_sample;
use super::input::{Drain, GateCause, Generation, Input};
use super::progress::Progress;
use super::{lost_pod, notice};

/// The input of the rules, and the progress of the engine after this reconcile.
pub(super) struct ReadinessFacts<'a> {
    pub input: &'a Input<'a>,
    pub progress: Progress,
    /// What caused the rollout of the newest generation, if that is known.
    pub cause: Option<&'a str>,
}

/// The next value of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EngineReadiness {
    pub ready: bool,
    /// An [`EngineReason`], or the reason of a Warning event of the StatefulSet.
    pub reason: String,
    pub message: String,
    /// A person has to act, so an event is emitted as well.
    pub(crate) actionable: bool,
}

type Rule = fn(&ReadinessFacts) -> Option<EngineReadiness>;

/// In order of precedence.
const RULES: &[Rule] = &[
    blocked,
    stopped,
    drain_check_failing,
    progress_deadline_exceeded,
    stateful_set_warning,
    name_taken,
    rolling,
    pods_not_ready,
];

pub(super) fn readiness(facts: &ReadinessFacts) -> EngineReadiness {
    RULES
        .iter()
        .find_map(|rule| rule(facts))
        .unwrap_or_else(|| engine_ready(facts))
}

fn not_ready(reason: EngineReason, message: String) -> EngineReadiness {
    let actionable = match reason {
        EngineReason::InstanceNotReady
        | EngineReason::DrainCheckFailing
        | EngineReason::TemplateRejected
        | EngineReason::FireboltEngineClassUnready
        | EngineReason::ResourceBoundsExceeded
        | EngineReason::ProgressDeadlineExceeded
        | EngineReason::ExternalFinalizer
        | EngineReason::ForeignObject
        | EngineReason::WriteRefused
        | EngineReason::DeleteRefused
        | EngineReason::DeletionStuck
        | EngineReason::StatefulSetWarning => true,
        EngineReason::Initializing
        | EngineReason::InstanceReady
        | EngineReason::Stopped
        | EngineReason::Rolling
        | EngineReason::PodsNotReady
        | EngineReason::OperatorUpgraded
        | EngineReason::EngineReady => false,
    };
    EngineReadiness {
        ready: false,
        reason: reason.to_string(),
        message,
        actionable,
    }
}

/// Reported in every phase, although only the phases that render are blocked.
fn blocked(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let gate = facts.input.desired.as_ref().err()?;
    let reason = match gate.cause {
        GateCause::InstanceNotReady => EngineReason::InstanceNotReady,
        GateCause::ClassUnready => EngineReason::FireboltEngineClassUnready,
        GateCause::TemplateRejected => EngineReason::TemplateRejected,
        GateCause::BoundsExceeded => EngineReason::ResourceBoundsExceeded,
        GateCause::WriteRefused => EngineReason::WriteRefused,
    };
    Some(not_ready(
        reason,
        format!("{}{}", gate.message, despite_gate(facts, gate.cause)),
    ))
}

/// What the engine does all the same.
fn despite_gate(facts: &ReadinessFacts, cause: GateCause) -> String {
    let serving = facts
        .progress
        .active
        .filter(|&active| facts.input.generation(active).any_ready());
    let can = match cause {
        GateCause::InstanceNotReady | GateCause::WriteRefused => "stopped",
        GateCause::ClassUnready | GateCause::TemplateRejected | GateCause::BoundsExceeded => "scaled and stopped",
    };
    match serving {
        Some(serving) => {
            format!(" Generation {serving} continues to serve queries, and the engine can still be {can}.")
        }
        None => String::new(),
    }
}

fn stopped(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let stopped = facts.progress.phase == EnginePhase::Stopped;
    let readiness = || {
        not_ready(
            EngineReason::Stopped,
            "The engine is stopped (spec.replicas is 0).".to_owned(),
        )
    };
    stopped.then(readiness)
}

fn drain_check_failing(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let old = facts.progress.draining?;
    let waits = facts.progress.phase == EnginePhase::Draining && facts.input.drain.waits;
    let sample = counting_sample(facts.input, old).filter(|_| waits)?;
    let Drain::Failed { pod, cause } = &sample.outcome else {
        return None;
    };
    let message = format!(
        "Cannot read the running queries of pod {pod} (generation {old}): {cause}. Generation {} is serving queries; \
         generation {old} is kept until a drain check succeeds and finds no queries. To delete it without waiting, set \
         spec.drainCheckEnabled to false.",
        facts.progress.current
    );
    Some(not_ready(EngineReason::DrainCheckFailing, message))
}

fn progress_deadline_exceeded(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let creating = facts.progress.phase == EnginePhase::Creating;
    let seen = facts.input.generation(facts.progress.current);
    let set = seen.live_set().filter(|_| creating && !seen.all_ready())?;
    let deadline = SignedDuration::try_from(facts.input.progress_deadline).ok()?;
    let waited = facts.input.now.duration_since(set.created);
    let serving = match facts.progress.active {
        Some(active) if facts.input.generation(active).any_serving() => {
            format!("Generation {active} continues to serve queries.")
        }
        Some(_) | None => "No generation is serving queries.".to_owned(),
    };
    let message = || {
        let warning = stateful_set_warning(facts).map(|warning| format!(" {}", warning.message));
        let causes = causes(facts) + &warning.unwrap_or_default();
        let problem = if causes.is_empty() {
            "the problem with the pods"
        } else {
            "the cause below"
        };
        format!(
            "{} is not ready after {deadline:#}: {}. {serving} Fix the spec or {problem}; the rollout continues \
             automatically when the pods are ready.{causes}",
            generation(facts),
            count(seen, set.replicas)
        )
    };
    (waited >= deadline).then(|| not_ready(EngineReason::ProgressDeadlineExceeded, message()))
}

/// Pods are missing, not just unready. The StatefulSet controller explains why in an event that users would not look
/// for.
fn stateful_set_warning(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let number = facts.progress.current;
    let seen = facts.input.generation(number);
    let missing = seen.live_set().is_some() && seen.pods.total < facts.input.replicas();
    let warning = facts.input.observed.warning.as_ref().filter(|_| missing)?;
    let name = facts.input.names().stateful_set(number);
    let times = if warning.count > 1 {
        format!(" (x{})", warning.count)
    } else {
        String::new()
    };
    let reason = if is_condition_reason(&warning.reason) {
        warning.reason.clone()
    } else {
        EngineReason::StatefulSetWarning.to_string()
    };
    Some(EngineReadiness {
        ready: false,
        reason,
        message: format!("StatefulSet {name}: {}{times}", warning.message),
        actionable: true,
    })
}

/// Stricter than Kubernetes: a letter, then letters, digits and underscores.
fn is_condition_reason(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 1024
        && text.chars().all(legal)
}

/// Queries cannot be routed, even if all pods are ready.
fn name_taken(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let routing = facts
        .input
        .observed
        .routing
        .as_ref()
        .filter(|routing| !routing.meta.owned)?;
    let name = facts.input.names().routing_service();
    let message = format!(
        "Service {name} (uid {}) is not owned by the engine, so queries cannot be routed. Delete it, or \
         recreate it under another name; the rollout then continues automatically.",
        routing.meta.uid
    );
    Some(not_ready(EngineReason::ForeignObject, message))
}

fn rolling(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let current = facts.progress.current;
    let message = match facts.progress.phase {
        EnginePhase::Stable | EnginePhase::Stopped => return None,
        EnginePhase::Creating => {
            let seen = facts.input.generation(current);
            let pods = count(seen, facts.input.replicas());
            stopping(facts)
                .unwrap_or_else(|| format!("{} is being created: {pods}.{}", generation(facts), causes(facts)))
        }
        EnginePhase::Switching => notice::remaining(facts.input, current)
            .and_then(|_| stopping(facts))
            .unwrap_or_else(|| format!("{} is ready; queries are being switched to it.", generation(facts))),
        EnginePhase::Draining => draining(facts),
        EnginePhase::Cleaning => format!("{}; the old generation is being deleted.", after_switch(facts)),
    };
    Some(not_ready(EngineReason::Rolling, message))
}

/// Contains nothing that changes every second, so it is written once.
fn stopping(facts: &ReadinessFacts) -> Option<String> {
    let current = facts.progress.current;
    let stopped = facts.input.replicas() == 0;
    let serving = notice::serving_beside(facts.input, current).filter(|_| stopped)?;
    Some(format!(
        "The engine is stopping. Generation {serving} continues to serve queries for {} s, until all gateways have \
         observed the stop. Then it finishes its running queries and is deleted.",
        notice::STOP_NOTICE.as_secs()
    ))
}

/// What the switch led to: the newest generation serves, unless it has no pods because the engine stops.
fn after_switch(facts: &ReadinessFacts) -> String {
    if facts.input.generation(facts.progress.current).has_no_replicas() {
        return "The engine is stopping".to_owned();
    }
    format!("{} is serving queries", generation(facts))
}

fn draining(facts: &ReadinessFacts) -> String {
    let state = after_switch(facts);
    let Some(old) = facts.progress.draining else {
        return format!("{state}.");
    };
    let left = match counting_sample(facts.input, old).map(|sample| &sample.outcome) {
        Some(Drain::Busy(1)) => "1 query left".to_owned(),
        Some(Drain::Busy(queries)) => format!("{queries} queries left"),
        Some(Drain::Drained) => "none left".to_owned(),
        Some(Drain::Failed { .. }) | None => "not counted yet".to_owned(),
    };
    format!("{state}; generation {old} is draining: {left}.")
}

/// The newest generation, as the subject of a sentence, with the cause of its rollout.
fn generation(facts: &ReadinessFacts) -> String {
    let current = facts.progress.current;
    match facts.cause {
        Some(cause) => format!("Generation {current} ({cause})"),
        None => format!("Generation {current}"),
    }
}

fn pods_not_ready(facts: &ReadinessFacts) -> Option<EngineReadiness> {
    let active = facts.progress.active?;
    let seen = facts.input.generation(active);
    let message = || {
        let pods = count(seen, facts.input.replicas());
        let state = if seen.any_ready() {
            "is serving queries with"
        } else {
            "is not serving queries:"
        };
        format!("Generation {active} {state} {pods}.{}", causes(facts))
    };
    (!seen.all_ready()).then(|| not_ready(EngineReason::PodsNotReady, message()))
}

fn engine_ready(facts: &ReadinessFacts) -> EngineReadiness {
    EngineReadiness {
        ready: true,
        reason: EngineReason::EngineReady.to_string(),
        message: format!("Generation {} is serving queries.", facts.progress.current),
        actionable: false,
    }
}

fn count(seen: &Generation, desired: i32) -> String {
    format!("{} of {desired} pods ready", seen.pods.ready)
}

/// Why pods are not ready, so that users do not have to describe each of them.
fn causes(facts: &ReadinessFacts) -> String {
    let lost = lost_pod::advice(facts.input, facts.progress.current);
    let causes = lost.iter().chain(&facts.input.observed.pod_causes);
    causes.flat_map(|cause| [" ", cause]).collect()
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
