//! The `Ready` condition: an ordered list of rules, of which the first that applies decides.

use firebolt_api::EnginePhase;
use firebolt_api::condition::EngineReason;
use jiff::SignedDuration;

use super::draining::counting_sample;
use super::input::{Drain, GateCause, Generation, Input};
use super::notice;
use super::phase::Progress;

/// What the rules look at: the input, and where the engine stands after this pass.
pub(super) struct Facts<'a> {
    pub input: &'a Input<'a>,
    pub progress: Progress,
}

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub ready: bool,
    /// One of ours, or the reason of a Warning event of the StatefulSet.
    pub reason: String,
    pub message: String,
    /// A person has to act, so it is told as an event too.
    pub actionable: bool,
}

type Rule = fn(&Facts) -> Option<Verdict>;

/// The order is the precedence.
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

pub(super) fn verdict(facts: &Facts) -> Verdict {
    RULES
        .iter()
        .find_map(|rule| rule(facts))
        .unwrap_or_else(|| engine_ready(facts))
}

fn not_ready(reason: EngineReason, message: String) -> Verdict {
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
    Verdict {
        ready: false,
        reason: reason.to_string(),
        message,
        actionable,
    }
}

/// Reported in every phase, although only the phases that render are held up.
fn blocked(facts: &Facts) -> Option<Verdict> {
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

fn stopped(facts: &Facts) -> Option<Verdict> {
    let stopped = facts.progress.phase == EnginePhase::Stopped;
    let verdict = || {
        not_ready(
            EngineReason::Stopped,
            "Engine is stopped (spec.replicas is 0)".to_owned(),
        )
    };
    stopped.then(verdict)
}

fn drain_check_failing(facts: &Facts) -> Option<Verdict> {
    let old = facts.progress.draining?;
    let waits = facts.progress.phase == EnginePhase::Draining && facts.input.drain.waits;
    let sample = counting_sample(facts.input, old).filter(|_| waits)?;
    let Drain::Failed { pod, cause } = &sample.outcome else {
        return None;
    };
    let message = format!(
        "The running queries of pod {pod} (generation {old}) cannot be read: {cause}. Generation {} serves; generation \
         {old} is kept until its queries can be read and have finished. To give it up at once, set \
         spec.drainCheckEnabled to false.",
        facts.progress.current
    );
    Some(not_ready(EngineReason::DrainCheckFailing, message))
}

fn progress_deadline_exceeded(facts: &Facts) -> Option<Verdict> {
    let creating = facts.progress.phase == EnginePhase::Creating;
    let seen = facts.input.generation(facts.progress.current);
    let set = seen.live_set().filter(|_| creating && !seen.all_ready())?;
    let deadline = SignedDuration::try_from(facts.input.progress_deadline).ok()?;
    let waited = facts.input.now.duration_since(set.created);
    let serving = match facts.progress.active {
        Some(active) => format!("Generation {active} keeps serving."),
        None => "Nothing serves yet.".to_owned(),
    };
    let message = || {
        format!(
            "Generation {} is not ready after {deadline:#}: {}. {serving} The operator keeps trying; correct the \
             specification or what holds the pods up.{}{}",
            facts.progress.current,
            count(seen, set.replicas),
            causes(facts),
            stateful_set_warning(facts).map_or(String::new(), |warning| format!(" {}", warning.message))
        )
    };
    (waited >= deadline).then(|| not_ready(EngineReason::ProgressDeadlineExceeded, message()))
}

/// Pods are missing, not just unready: the StatefulSet controller says why, in an event that nobody would look for.
fn stateful_set_warning(facts: &Facts) -> Option<Verdict> {
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
    Some(Verdict {
        ready: false,
        reason,
        message: format!("StatefulSet {name}: {}{times}", warning.message),
        actionable: true,
    })
}

/// Conservative: a letter, then letters, digits and underscores. Kubernetes allows a little more.
fn is_condition_reason(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 1024
        && text.chars().all(legal)
}

/// Queries cannot be routed, however ready the pods are.
fn name_taken(facts: &Facts) -> Option<Verdict> {
    let routing = facts
        .input
        .observed
        .routing
        .as_ref()
        .filter(|routing| !routing.meta.owned)?;
    let name = facts.input.names().routing_service();
    let message = format!(
        "Service {name} (uid {}) belongs to somebody else, so queries cannot be routed. Delete or rename it; the \
         rollout goes on by itself.",
        routing.meta.uid
    );
    Some(not_ready(EngineReason::ForeignObject, message))
}

fn rolling(facts: &Facts) -> Option<Verdict> {
    let current = facts.progress.current;
    let message = match facts.progress.phase {
        EnginePhase::Stable | EnginePhase::Stopped => return None,
        EnginePhase::Creating => {
            let seen = facts.input.generation(current);
            let pods = count(seen, facts.input.replicas());
            stopping(facts)
                .unwrap_or_else(|| format!("Generation {current} is being created: {pods}.{}", causes(facts)))
        }
        EnginePhase::Switching => format!("Queries are being moved to generation {current}."),
        EnginePhase::Draining => draining(facts),
        EnginePhase::Cleaning => format!("Generation {current} has taken over; the old generation is being removed."),
    };
    Some(not_ready(EngineReason::Rolling, message))
}

/// Says nothing that changes from one second to the next, so it is written once.
fn stopping(facts: &Facts) -> Option<String> {
    let current = facts.progress.current;
    let wanted = facts.input.replicas() == 0;
    let serving = notice::serving_beside(facts.input, current).filter(|_| wanted)?;
    Some(format!(
        "The engine is stopping. Generation {serving} still serves queries for {} s, until every gateway knows; then \
         generation {current}, which has no pods, takes over.",
        notice::STOP_NOTICE.as_secs()
    ))
}

fn draining(facts: &Facts) -> String {
    let current = facts.progress.current;
    let Some(old) = facts.progress.draining else {
        return format!("Generation {current} has taken over.");
    };
    let left = match counting_sample(facts.input, old).map(|sample| &sample.outcome) {
        Some(Drain::Busy(1)) => "1 query left".to_owned(),
        Some(Drain::Busy(queries)) => format!("{queries} queries left"),
        Some(Drain::Drained) => "none left".to_owned(),
        Some(Drain::Failed { .. }) | None => "not counted yet".to_owned(),
    };
    format!("Generation {current} has taken over; generation {old} finishes its queries: {left}.")
}

fn pods_not_ready(facts: &Facts) -> Option<Verdict> {
    let active = facts.progress.active?;
    let seen = facts.input.generation(active);
    let message = || {
        let pods = count(seen, facts.input.replicas());
        format!("Generation {active} serves with {pods}.{}", causes(facts))
    };
    (!seen.all_ready()).then(|| not_ready(EngineReason::PodsNotReady, message()))
}

fn engine_ready(facts: &Facts) -> Verdict {
    Verdict {
        ready: true,
        reason: EngineReason::EngineReady.to_string(),
        message: format!("Generation {} serves.", facts.progress.current),
        actionable: false,
    }
}

fn count(seen: &Generation, wanted: i32) -> String {
    format!("{} of {wanted} pods ready", seen.pods.ready)
}

/// What the pods themselves say, so that nobody has to describe them one by one.
fn causes(facts: &Facts) -> String {
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
    #[case::stopped(engine("a").replicas(0).serving(0).at(Stopped), "Stopped", "Engine is stopped (spec.replicas is 0)")]
    #[case::drain_check(engine("a").whole(0).serving(1).at(Draining).counted(0, failing()), "DrainCheckFailing", "pod a-g0-1 (generation 0) cannot be read: connection refused.")]
    #[case::deadline(late(engine("a").serving(0).generation(1, 1).at(Creating)), "ProgressDeadlineExceeded", "Generation 1 is not ready after 15m: 1 of 2 pods ready. Generation 0 keeps serving.")]
    #[case::deadline_of_a_first_deploy(late(engine("a").generation(0, 1).at(Creating)), "ProgressDeadlineExceeded", "Nothing serves yet.")]
    #[case::event(engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
    #[case::deadline_of_what_has_served(late(engine("a").generation(0, 1).routed(0).at(Stable)), "PodsNotReady", "1 of 2 pods ready.")]
    #[case::deadline_of_what_is_ready(late(engine("a").whole(0).whole(1).counting(Creating, 1, 0, None)), "Rolling", "2 of 2 pods ready.")]
    #[case::event_at_rest(engine("a").serving(0).at(Stable).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
    #[case::event_with_an_odd_reason(engine("a").generation(0, 1).at(Creating).but(warned("no reason")), "StatefulSetWarning", "exceeded quota")]
    #[case::creating(engine("a").generation(0, 1).at(Creating), "Rolling", "Generation 0 is being created: 1 of 2 pods ready.")]
    #[case::switching(engine("a").serving(0).whole(1).at(Switching), "Rolling", "Queries are being moved to generation 1.")]
    #[case::draining(engine("a").whole(0).serving(1).at(Draining).counted(0, Drain::Busy(1)), "Rolling", "generation 0 finishes its queries: 1 query left.")]
    #[case::back_to_draining(engine("a").whole(0).serving(1).at(Cleaning).routed(0), "Rolling", "not counted yet")]
    #[case::pods(engine("a").generation(0, 1).routed(0).at(Stable), "PodsNotReady", "Generation 0 serves with 1 of 2 pods ready.")]
    #[case::ready(engine("a").serving(0).at(Stable), "EngineReady", "Generation 0 serves.")]
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
    fn a_failed_count_matters_only_while_it_is_waited_for() {
        let case = engine("a").whole(0).serving(1).at(Draining).counted(0, failing());
        let gone = case.clone().lost_set(0);
        assert_eq!(gone.ready().reason, "Rolling");
        assert_eq!(case.but(|case| case.drain.waits = false).ready().reason, "Rolling");
    }

    #[test]
    fn pods_say_why_they_are_not_ready() {
        let case = engine("a").generation(0, 1).at(Creating);
        let case = case.but(|case| case.observed.pod_causes = vec!["Pod a-g0-1 cannot pull its image.".to_owned()]);
        assert!(
            case.ready()
                .message
                .ends_with("1 of 2 pods ready. Pod a-g0-1 cannot pull its image.")
        );
    }

    #[test]
    fn the_instance_has_a_condition_of_its_own() {
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
