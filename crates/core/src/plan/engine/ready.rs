//! The `Ready` condition. The first rule of an ordered list that applies decides.

use firebolt_api::EnginePhase;
use firebolt_api::condition::EngineReason;
use jiff::SignedDuration;

use super::draining::counting_sample;
use super::input::{Drain, GateCause, Generation, Input};
use super::notice;
use super::progress::Progress;

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
        | EngineReason::StatefulSetWarning => true,
        EngineReason::Initializing
        | EngineReason::InstanceReady
        | EngineReason::Stopped
        | EngineReason::Rolling
        | EngineReason::PodsNotReady
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
    Some(not_ready(reason, gate.message.clone()))
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
         generation {old} is kept until its queries have been read and have finished. To delete it immediately, set \
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
        Some(active) => format!("Generation {active} continues to serve queries."),
        None => "No generation is serving queries.".to_owned(),
    };
    let message = || {
        format!(
            "{} is not ready after {deadline:#}: {}. {serving} The rollout continues as soon as the pods become \
             ready; fix the spec or the cause that prevents it.{}{}",
            generation(facts),
            count(seen, set.replicas),
            causes(facts),
            stateful_set_warning(facts).map_or(String::new(), |warning| format!(" {}", warning.message))
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
        EnginePhase::Cleaning => {
            format!(
                "{} is serving queries; the old generation is being deleted.",
                generation(facts)
            )
        }
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
         observed the stop. Then generation {current}, which has no pods, takes over.",
        notice::STOP_NOTICE.as_secs()
    ))
}

fn draining(facts: &ReadinessFacts) -> String {
    let serving = format!("{} is serving queries", generation(facts));
    let Some(old) = facts.progress.draining else {
        return format!("{serving}.");
    };
    let left = match counting_sample(facts.input, old).map(|sample| &sample.outcome) {
        Some(Drain::Busy(1)) => "1 query left".to_owned(),
        Some(Drain::Busy(queries)) => format!("{queries} queries left"),
        Some(Drain::Drained) => "none left".to_owned(),
        Some(Drain::Failed { .. }) | None => "not counted yet".to_owned(),
    };
    format!("{serving}; generation {old} is draining: {left}.")
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
        format!("Generation {active} is serving queries with {pods}.{}", causes(facts))
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
    let causes = facts.input.observed.pod_causes.iter();
    causes.flat_map(|cause| [" ", cause]).collect()
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Stopped, Switching};
    use rstest::rstest;

    use super::*;
    use crate::plan::engine::StatefulSetWarning;
    use crate::plan::engine::fixture::{Case, engine};

    fn failing() -> Drain {
        Drain::Failed {
            pod: "a-g0-1".to_owned(),
            cause: "connection refused".to_owned(),
        }
    }

    fn warned(reason: &str) -> impl FnOnce(&mut Case) {
        let reason = reason.to_owned();
        |case| {
            case.observed.warning = Some(StatefulSetWarning {
                reason,
                message: "exceeded quota".to_owned(),
                count: 3,
            });
            case.observed
                .generations
                .values_mut()
                .for_each(|seen| seen.pods.total = 1);
        }
    }

    fn late(case: Case) -> Case {
        case.but(|case| case.now += SignedDuration::from_mins(10))
    }

    #[rstest]
    #[case::instance(engine("a").replicas(0).serving(0).at(Stopped).gate(GateCause::InstanceNotReady), "InstanceNotReady", "InstanceNotReady: correct it.")]
    #[case::class(engine("a").serving(0).at(Stable).gate(GateCause::ClassUnready), "FireboltEngineClassUnready", "correct it.")]
    #[case::template(engine("a").serving(0).at(Stable).gate(GateCause::TemplateRejected), "TemplateRejected", "correct it.")]
    #[case::bounds(engine("a").serving(0).at(Stable).gate(GateCause::BoundsExceeded), "ResourceBoundsExceeded", "correct it.")]
    #[case::stopped(engine("a").replicas(0).serving(0).at(Stopped), "Stopped", "The engine is stopped (spec.replicas is 0).")]
    #[case::drain_check(engine("a").complete(0).serving(1).at(Draining).counted(0, failing()), "DrainCheckFailing", "Cannot read the running queries of pod a-g0-1 (generation 0): connection refused.")]
    #[case::deadline(late(engine("a").serving(0).generation(1, 1).at(Creating)), "ProgressDeadlineExceeded", "Generation 1 is not ready after 15m: 1 of 2 pods ready. Generation 0 continues to serve queries.")]
    #[case::deadline_of_a_first_deploy(late(engine("a").generation(0, 1).at(Creating)), "ProgressDeadlineExceeded", "No generation is serving queries.")]
    #[case::event(engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
    #[case::deadline_of_what_has_served(late(engine("a").generation(0, 1).routed(0).at(Stable)), "PodsNotReady", "1 of 2 pods ready.")]
    #[case::deadline_of_what_is_ready(late(engine("a").complete(0).complete(1).counting(Creating, 1, 0, None)), "Rolling", "2 of 2 pods ready.")]
    #[case::event_at_rest(engine("a").serving(0).at(Stable).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
    #[case::event_with_an_odd_reason(engine("a").generation(0, 1).at(Creating).but(warned("no reason")), "StatefulSetWarning", "exceeded quota")]
    #[case::creating(engine("a").generation(0, 1).at(Creating), "Rolling", "Generation 0 is being created: 1 of 2 pods ready.")]
    #[case::switching(engine("a").serving(0).complete(1).at(Switching), "Rolling", "Generation 1 is ready; queries are being switched to it.")]
    #[case::draining(engine("a").complete(0).serving(1).at(Draining).counted(0, Drain::Busy(1)), "Rolling", "generation 0 is draining: 1 query left.")]
    #[case::back_to_draining(engine("a").complete(0).serving(1).at(Cleaning).routed(0), "Rolling", "not counted yet")]
    #[case::pods(engine("a").generation(0, 1).routed(0).at(Stable), "PodsNotReady", "Generation 0 is serving queries with 1 of 2 pods ready.")]
    #[case::ready(engine("a").serving(0).at(Stable), "EngineReady", "Generation 0 is serving queries.")]
    fn the_first_rule_that_applies_decides(#[case] case: Case, #[case] reason: &str, #[case] message: &str) {
        let ready = case.ready();
        assert_eq!(ready.reason, reason);
        assert!(ready.message.contains(message), "{}", ready.message);
        assert_eq!(ready.status, if reason == "EngineReady" { "True" } else { "False" });
    }

    #[test]
    fn an_event_counts_only_while_pods_are_missing() {
        let case = engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate"));
        let present = case.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.total = 2);
        assert_eq!(present.ready().reason, "Rolling");
        let gone = engine("a")
            .serving(0)
            .at(Creating)
            .but(warned("FailedCreate"))
            .lost_set(0);
        assert_eq!(gone.ready().reason, "Rolling");
    }

    #[test]
    fn an_event_that_happened_once_is_not_counted() {
        let case = engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate"));
        let once = case.but(|case| case.observed.warning.as_mut().unwrap().count = 1);
        assert_eq!(once.ready().message, "StatefulSet a-g0: exceeded quota");
    }

    #[test]
    fn a_failed_count_matters_only_while_draining_waits_for_it() {
        let case = engine("a").complete(0).serving(1).at(Draining).counted(0, failing());
        let gone = case.clone().lost_set(0);
        assert_eq!(gone.ready().reason, "Rolling");
        assert_eq!(case.but(|case| case.drain.waits = false).ready().reason, "Rolling");
    }

    #[rstest]
    #[case::creating(engine("a").serving(0).generation(1, 1).at(Creating), "is being created: 1 of 2 pods ready.")]
    #[case::deadline(late(engine("a").serving(0).generation(1, 1).at(Creating)), "is not ready after 15m: 1 of 2 pods ready.")]
    #[case::switching(engine("a").serving(0).complete(1).at(Switching), "is ready; queries are being switched to it.")]
    #[case::draining(engine("a").complete(0).serving(1).at(Draining), "is serving queries; generation 0 is draining: not counted yet.")]
    #[case::cleaning(engine("a").complete(0).serving(1).at(Draining).counted(0, Drain::Drained), "is serving queries; the old generation is being deleted.")]
    fn every_message_of_a_rollout_names_its_cause(#[case] case: Case, #[case] rest: &str) {
        let cause = "`spec.replicas` changed from 1 to 2";
        let case = case.but(|case| case.engine.status.as_mut().unwrap().rollout_cause = Some(cause.to_owned()));
        let message = case.ready().message;
        assert!(
            message.starts_with(&format!("Generation 1 ({cause}) {rest}")),
            "{message}"
        );
    }

    #[test]
    fn the_message_contains_why_pods_are_not_ready() {
        let case = engine("a").generation(0, 1).at(Creating);
        let case = case.but(|case| case.observed.pod_causes = vec!["Pod a-g0-1 cannot pull its image.".to_owned()]);
        assert!(
            case.ready()
                .message
                .ends_with("1 of 2 pods ready. Pod a-g0-1 cannot pull its image.")
        );
    }

    #[test]
    fn the_instance_has_a_separate_condition() {
        let instance = |case: Case| {
            let conditions = case.status().conditions;
            conditions
                .into_iter()
                .find(|condition| condition.type_ == "InstanceReady")
                .map(|condition| condition.status)
        };
        let case = engine("a").serving(0).at(Stable);
        assert_eq!(instance(case.clone()).as_deref(), Some("True"));
        assert_eq!(
            instance(case.clone().gate(GateCause::InstanceNotReady)).as_deref(),
            Some("False")
        );
        assert_eq!(instance(case.gate(GateCause::ClassUnready)), None);
    }
}
