//! The next status, which is written once per reconcile, and the events about its changes.

use std::time::Duration;

use firebolt_api::condition::{EngineCondition, EngineReason};
use firebolt_api::key::Label;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngineStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::cleanup;
use super::drift::matches_desired;
use super::input::{Adoption, Input};
use super::output::Plan;
use super::phase::{Transition, rollout_message};
use super::progress::Progress;
use super::ready::{self, EngineReadiness, ReadinessFacts};
use super::{auto_stop, kstatus};
use crate::plan::PlannedEvent;
use crate::plan::condition::{self, ConditionUpdate};

/// The reason of the warning that a lost or inconsistent status was restored.
pub const STATUS_RECOVERED: &str = "StatusRecovered";

/// The first status of a new engine.
pub(super) fn first(input: &Input, progress: Progress) -> Plan {
    let mut status = based_on(input, progress, None);
    let readiness = EngineReadiness {
        ready: false,
        reason: EngineReason::Initializing.to_string(),
        message: "The operator has started to create the engine.".to_owned(),
        actionable: false,
    };
    set_ready(input, &mut status, &readiness);
    let message = rollout_message(progress.current, "the engine was created");
    finish(
        input,
        status,
        Transition::stay(progress, Vec::new()),
        vec![PlannedEvent::normal(event_reason(progress.phase), message)],
    )
}

/// The status was derived from the cluster. Nothing is written before it is persisted.
pub(super) fn recovered(input: &Input, progress: Progress) -> Plan {
    let mut status = based_on(input, progress, None);
    set_conditions(input, &mut status, progress);
    let active = match progress.active {
        Some(active) => format!("generation {active} is active"),
        None => "no generation is active".to_owned(),
    };
    let message = format!(
        "The status was missing or inconsistent and was restored from the cluster: the newest generation is {}, \
         {active}.",
        progress.current
    );
    finish(
        input,
        status,
        Transition::stay(progress, Vec::new()),
        vec![PlannedEvent::warning(STATUS_RECOVERED, message)],
    )
}

/// The end of an ordinary reconcile.
pub(super) fn conclude(
    input: &Input,
    before: Progress,
    step: Transition,
    auto_stop: Option<auto_stop::AutoStopDecision>,
    mut events: Vec<PlannedEvent>,
) -> Plan {
    let after = step.progress;
    let mut status = based_on(input, after, step.cause.as_deref());
    if after.is_terminal() && matches_desired(input, after) {
        status.observed_generation = input.engine.metadata.generation;
    }
    if let Some(decision) = auto_stop {
        decision.record(input, &mut status);
    }
    if after.is_terminal() && input.desired.is_ok() {
        if auto_stop::enabled(input).is_none() {
            status.auto_stop_reason = Some(AutoStopReason::Disabled);
            status.last_activity_time = None;
        } else if !before.is_terminal() {
            // However long the pods took to start, the engine gets one full idle timeout from now on.
            status.last_activity_time = Some(Time(input.now));
        }
    }
    events.extend(set_conditions(input, &mut status, after));
    if after.phase != before.phase || after.current != before.current {
        events.insert(0, PlannedEvent::normal(event_reason(after.phase), step.why.clone()));
    }
    finish(input, status, step, events)
}

/// The status of an engine that is being deleted: only what blocks the deletion is added.
pub(super) fn deleting(input: &Input, held: &[String]) -> Option<FireboltEngineStatus> {
    let (reason, message) = if held.is_empty() {
        cleanup::problem(input)?
    } else {
        (EngineReason::ExternalFinalizer, held.join("\n"))
    };
    let mut status = input.engine.status.clone()?;
    let readiness = EngineReadiness {
        ready: false,
        reason: reason.to_string(),
        message,
        actionable: true,
    };
    set_ready(input, &mut status, &readiness);
    changed(input, status)
}

fn finish(input: &Input, status: FireboltEngineStatus, step: Transition, events: Vec<PlannedEvent>) -> Plan {
    let status = changed(input, status);
    let moved = status.as_ref().is_some_and(|status| {
        let before = input.engine.status.as_ref();
        before.and_then(Progress::of) != Progress::of(status)
    });
    let requeue_after = if moved {
        Some(Duration::ZERO)
    } else {
        step.requeue_after
    };
    Plan {
        writes: step.writes,
        status,
        events,
        requeue_after,
        throttle: None,
    }
}

/// The status with the current time, if anything changed.
fn changed(input: &Input, mut status: FireboltEngineStatus) -> Option<FireboltEngineStatus> {
    let before = input.engine.status.as_ref();
    status.last_reconciled = before.and_then(|before| before.last_reconciled.clone());
    if before == Some(&status) {
        return None;
    }
    status.last_reconciled = Some(Time(input.now));
    Some(status)
}

/// The next status but for its conditions. Without a new cause, the one of the current rollout is kept.
fn based_on(input: &Input, progress: Progress, cause: Option<&str>) -> FireboltEngineStatus {
    let before = input.engine.status.clone();
    let known = before
        .as_ref()
        .filter(|before| before.current_generation == progress.current);
    let cause = cause.or_else(|| known.and_then(|before| before.rollout_cause.as_deref()));
    let pods = progress
        .active
        .map(|active| input.generation(active).pods)
        .unwrap_or_default();
    let engine = format!("{}={}", Label::Engine, input.names().0);
    let selector = match progress.active {
        Some(active) => format!("{engine},{}={active}", Label::Generation),
        None => engine,
    };
    FireboltEngineStatus {
        observed_generation: before.as_ref().and_then(|before| before.observed_generation),
        current_generation: progress.current,
        active_generation: progress.active.unwrap_or(-1),
        draining_generation: progress.draining,
        phase: Some(progress.phase),
        rollout_cause: cause.map(str::to_owned),
        replicas: Some(pods.total),
        ready_replicas: Some(pods.ready),
        selector: Some(selector),
        last_reconciled: before.as_ref().and_then(|before| before.last_reconciled.clone()),
        last_activity_time: before.as_ref().and_then(|before| before.last_activity_time.clone()),
        last_scaled_at: before.as_ref().and_then(|before| before.last_scaled_at.clone()),
        auto_stop_reason: before.as_ref().and_then(|before| before.auto_stop_reason),
        conditions: before.map(|before| before.conditions).unwrap_or_default(),
    }
}

/// Sets all conditions. Returns events if a person has to act and has not been informed yet.
fn set_conditions(input: &Input, status: &mut FireboltEngineStatus, progress: Progress) -> Vec<PlannedEvent> {
    let (reason, message) = match input.instance {
        Ok(()) => (EngineReason::InstanceReady, "The engine can use its instance."),
        Err(message) => (EngineReason::InstanceNotReady, message),
    };
    let usable = input.instance.is_ok();
    set_condition(
        input,
        status,
        EngineCondition::InstanceReady,
        usable,
        reason.into(),
        message.to_owned(),
    );
    set_outdated(input, status, progress);
    let blocked = set_cleanup(input, status);
    let readiness = ready::readiness(&ReadinessFacts {
        input,
        progress,
        cause: status.rollout_cause.as_deref(),
    });
    let changed_ready = set_ready(input, status, &readiness);
    let ready =
        (changed_ready && readiness.actionable).then(|| PlannedEvent::warning(readiness.reason, readiness.message));
    ready.into_iter().chain(blocked).collect()
}

/// Sets or removes the condition that the newest generation was rendered by another version of the operator.
fn set_outdated(input: &Input, status: &mut FireboltEngineStatus, progress: Progress) {
    let set = input.generation(progress.current).live_set();
    let parts = set.map(|set| set.outdated.join(", ")).filter(|parts| !parts.is_empty());
    let known = input.desired.is_ok();
    match parts {
        Some(parts) => {
            let adoption = match input.limits.adoption {
                Adoption::OnNextChange => {
                    "The next change of the engine adopts that. To adopt it without a change, set --upgrade-policy=Rolling."
                }
                Adoption::Waits | Adoption::Now => {
                    "The engine adopts that when the ones before it are ready (--upgrade-policy=Rolling)."
                }
            };
            let message = format!(
                "Another version of the operator rendered generation {}; this one renders {parts} differently. {adoption}",
                progress.current
            );
            let reason = EngineReason::OperatorUpgraded.into();
            set_condition(input, status, EngineCondition::RenderingOutdated, true, reason, message);
        }
        None if known => condition::remove(&mut status.conditions, EngineCondition::RenderingOutdated.into()),
        None => {}
    }
}

/// Sets or removes the condition that objects cannot be deleted. Returns an event if that is news.
fn set_cleanup(input: &Input, status: &mut FireboltEngineStatus) -> Option<PlannedEvent> {
    let Some((reason, message)) = cleanup::problem(input) else {
        condition::remove(&mut status.conditions, EngineCondition::CleanupBlocked.into());
        return None;
    };
    let news = set_condition(
        input,
        status,
        EngineCondition::CleanupBlocked,
        true,
        reason.into(),
        message.clone(),
    );
    news.then(|| PlannedEvent::warning(<&str>::from(reason), message))
}

fn set_ready(input: &Input, status: &mut FireboltEngineStatus, readiness: &EngineReadiness) -> bool {
    let message = readiness.message.clone();
    let changed = set_condition(
        input,
        status,
        EngineCondition::Ready,
        readiness.ready,
        &readiness.reason,
        message,
    );
    kstatus::report(input, status, readiness);
    changed
}

/// Returns whether the reason or the message changed.
fn set_condition(
    input: &Input,
    status: &mut FireboltEngineStatus,
    kind: EngineCondition,
    holds: bool,
    reason: &str,
    message: String,
) -> bool {
    let update = ConditionUpdate {
        type_: kind.into(),
        holds,
        reason,
        message,
    };
    condition::set(
        &mut status.conditions,
        update,
        input.engine.metadata.generation,
        input.now,
    )
}

fn event_reason(phase: EnginePhase) -> &'static str {
    match phase {
        EnginePhase::Stable => "Stable",
        EnginePhase::Creating => "Creating",
        EnginePhase::Switching => "Switching",
        EnginePhase::Draining => "Draining",
        EnginePhase::Cleaning => "Cleaning",
        EnginePhase::Stopped => "Stopped",
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable};

    use super::*;
    use crate::plan::Severity;
    use crate::plan::engine::fixture::{Case, engine, minutes_ago};
    use crate::plan::engine::{Drain, GateCause};

    #[test]
    fn a_reconcile_without_changes_writes_no_status() {
        let case = engine("a").serving(0).at(Stable).reported();
        assert_eq!(
            case.but(|case| case.now += jiff::SignedDuration::from_hours(1))
                .plan()
                .status,
            None
        );
    }

    #[test]
    fn the_cause_of_a_rollout_is_kept_until_the_next_one() {
        let caused = |case: Case, cause: &str| {
            case.but(|case| case.engine.status.as_mut().unwrap().rollout_cause = Some(cause.to_owned()))
        };
        let started = engine("a").serving(0).at(Stable).desired_hash("new");
        let drained = engine("a")
            .complete(0)
            .serving(1)
            .at(Draining)
            .counted(0, Drain::Drained);
        let abandoned = engine("a").serving(0).generation(1, 1).at(Creating).desired_hash("new");
        for (case, expected) in [
            (started, "a setting changed that the pods do not show"),
            (drained, "earlier"),
            (abandoned, "a setting changed that the pods do not show"),
        ] {
            assert_eq!(
                caused(case, "earlier").status().rollout_cause.as_deref(),
                Some(expected)
            );
        }
    }

    #[test]
    fn a_new_engine_starts_at_generation_0() {
        let status = engine("a").status();
        assert_eq!(
            (status.phase, status.current_generation, status.active_generation),
            (Some(Creating), 0, -1)
        );
        assert_eq!(engine("a").ready().reason, "Initializing");
    }

    #[test]
    fn the_finalizer_comes_first() {
        let plan = engine("a").but(|case| case.engine.metadata.finalizers = None).plan();
        assert_eq!(plan.writes, [crate::plan::engine::EngineWrite::AddFinalizer]);
        assert_eq!(plan.status, None);
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let time = |case: &Case| case.ready().last_transition_time;
        let case = engine("a").serving(0).at(Stable).reported();
        let earlier = case.but(|case| {
            let conditions = &mut case.engine.status.as_mut().unwrap().conditions;
            for condition in conditions {
                condition.last_transition_time = Time(minutes_ago(9));
            }
        });
        let same = earlier.clone().but(|case| case.engine.metadata.generation = Some(2));
        assert_eq!(time(&same), Time(minutes_ago(9)));
        assert_eq!(time(&earlier.generation(0, 1)), Time(case_now()));
    }

    fn case_now() -> jiff::Timestamp {
        crate::plan::engine::fixture::now()
    }

    #[test]
    fn an_actionable_problem_is_reported_once() {
        let blocked = engine("a").serving(0).at(Stable).gate(GateCause::BoundsExceeded);
        let warnings = |case: &Case| {
            let events = case.plan().events;
            events
                .iter()
                .filter(|event| event.severity == Severity::Warning)
                .count()
        };
        assert_eq!(warnings(&blocked), 1);
        assert_eq!(warnings(&blocked.clone().reported()), 0);
        let another = blocked.reported().but(|case| {
            case.desired.as_mut().unwrap_err().message = "Another bound is exceeded.".to_owned();
        });
        assert_eq!(warnings(&another), 1);
        assert_eq!(warnings(&engine("a").generation(0, 1).routed(0).at(Stable)), 0);
    }

    #[test]
    fn the_observed_generation_is_set_when_the_rollout_is_complete() {
        assert_eq!(engine("a").serving(0).at(Stable).status().observed_generation, Some(1));
        assert_eq!(
            engine("a")
                .serving(0)
                .at(Stable)
                .desired_hash("new")
                .status()
                .observed_generation,
            None
        );
        let observed = |case: Case| case.status().observed_generation;
        assert_eq!(observed(engine("a").complete(0).serving(1).at(Draining)), None);
        let waiting = engine("a").serving(0).at(Stable).gate(GateCause::InstanceNotReady);
        assert_eq!(observed(waiting), None);
    }

    #[test]
    fn auto_stop_is_reported_as_disabled_only_if_the_engine_is_stable_and_its_policy_known() {
        let reason = |case: Case| case.status().auto_stop_reason;
        let at_rest = engine("a").serving(0).at(Stable);
        assert_eq!(reason(at_rest.clone()), Some(AutoStopReason::Disabled));
        assert_eq!(reason(at_rest.gate(GateCause::ClassUnready)), None);
        assert_eq!(reason(engine("a").generation(0, 1).at(Creating)), None);
    }

    #[test]
    fn an_engine_that_becomes_stable_gets_a_full_idle_timeout() {
        let case = engine("a").complete(0).serving(1).at(Draining).auto_stop(&[]);
        let rolled = case.last_used(minutes_ago(60)).counted(0, Drain::Drained);
        let cleaning = rolled.reported();
        assert_eq!(cleaning.status().last_activity_time, Some(Time(case_now())));
        let at_rest = engine("a")
            .serving(1)
            .at(Stable)
            .auto_stop(&[])
            .last_used(minutes_ago(60));
        assert_eq!(at_rest.status().last_activity_time, Some(Time(minutes_ago(60))));
    }

    #[test]
    fn the_scale_subresource_counts_the_active_generation() {
        let status = engine("a").serving(0).generation(1, 0).at(Creating).status();
        assert_eq!(status.replicas, Some(2));
        assert!(status.selector.unwrap().ends_with("=0"));
    }
}
