//! The next status, the one write of it per pass, and what its changes tell people.

use std::time::Duration;

use firebolt_api::condition::{EngineCondition, EngineReason};
use firebolt_api::key::Label;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngineStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::auto_stop;
use super::input::{GateCause, Input};
use super::output::Plan;
use super::phase::{Progress, Step, matches_desired};
use super::ready::{self, Facts, Verdict};
use crate::plan::Event;
use crate::plan::condition::{self, Said};

/// The first status of a new engine.
pub(super) fn first(input: &Input, progress: Progress) -> Plan {
    let mut status = based_on(input, progress);
    let verdict = Verdict {
        ready: false,
        reason: EngineReason::Initializing.to_string(),
        message: "The engine was just seen for the first time.".to_owned(),
        actionable: false,
    };
    set_ready(input, &mut status, &verdict);
    let message = format!("Generation {} rolls out: the engine is new.", progress.current);
    finish(
        input,
        status,
        Step::stay(progress, Vec::new()),
        vec![Event::normal(event_reason(progress.phase), message)],
    )
}

/// The status was read from the cluster. Nothing is written before it is persisted.
pub(super) fn recovered(input: &Input, progress: Progress) -> Plan {
    let mut status = based_on(input, progress);
    set_conditions(input, &mut status, progress);
    let serving = match progress.active {
        Some(active) => format!("generation {active} serves"),
        None => "no generation serves".to_owned(),
    };
    let message = format!(
        "The status was lost or could not be true. It was read from the cluster again: the newest generation is {}, \
         {serving}.",
        progress.current
    );
    finish(
        input,
        status,
        Step::stay(progress, Vec::new()),
        vec![Event::warning("StatusRecovered", message)],
    )
}

/// The end of an ordinary pass.
pub(super) fn conclude(
    input: &Input,
    before: Progress,
    step: Step,
    auto_stop: Option<auto_stop::Decision>,
    mut events: Vec<Event>,
) -> Plan {
    let after = step.progress;
    let mut status = based_on(input, after);
    if after.is_terminal() && matches_desired(input, after.current) {
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
            // However long the pods took, the engine gets one full idle time once it serves.
            status.last_activity_time = Some(Time(input.now));
        }
    }
    events.extend(set_conditions(input, &mut status, after));
    if after.phase != before.phase || after.current != before.current {
        events.insert(0, Event::normal(event_reason(after.phase), step.why.clone()));
    }
    finish(input, status, step, events)
}

/// The status of an engine that is going: only what holds it up is added.
pub(super) fn deleting(input: &Input, reason: EngineReason, held: &[String]) -> Option<FireboltEngineStatus> {
    if held.is_empty() {
        return None;
    }
    let mut status = input.engine.status.clone()?;
    let verdict = Verdict {
        ready: false,
        reason: reason.to_string(),
        message: held.join("\n"),
        actionable: true,
    };
    set_ready(input, &mut status, &verdict);
    changed(input, status)
}

fn finish(input: &Input, status: FireboltEngineStatus, step: Step, events: Vec<Event>) -> Plan {
    let status = changed(input, status);
    let moved = status.as_ref().is_some_and(|status| {
        let before = input.engine.status.as_ref();
        before.and_then(Progress::of) != Progress::of(status)
    });
    let look_again = if moved { Some(Duration::ZERO) } else { step.look_again };
    Plan {
        writes: step.writes,
        status,
        events,
        look_again,
    }
}

/// The status, stamped, if it says anything new.
fn changed(input: &Input, mut status: FireboltEngineStatus) -> Option<FireboltEngineStatus> {
    let before = input.engine.status.as_ref();
    status.last_reconciled = before.and_then(|before| before.last_reconciled.clone());
    if before == Some(&status) {
        return None;
    }
    status.last_reconciled = Some(Time(input.now));
    Some(status)
}

fn based_on(input: &Input, progress: Progress) -> FireboltEngineStatus {
    let before = input.engine.status.clone();
    let pods = progress.active.map(|active| input.generation(active).pods.total);
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
        replicas: Some(pods.unwrap_or(0)),
        selector: Some(selector),
        last_reconciled: before.as_ref().and_then(|before| before.last_reconciled.clone()),
        last_activity_time: before.as_ref().and_then(|before| before.last_activity_time.clone()),
        last_scaled_at: before.as_ref().and_then(|before| before.last_scaled_at.clone()),
        auto_stop_reason: before.as_ref().and_then(|before| before.auto_stop_reason),
        conditions: before.map(|before| before.conditions).unwrap_or_default(),
    }
}

/// Sets both conditions; what a person must act on comes back as an event, once.
fn set_conditions(input: &Input, status: &mut FireboltEngineStatus, progress: Progress) -> Option<Event> {
    let instance = match input.desired {
        Ok(_) => Some((
            true,
            EngineReason::InstanceReady,
            "The instance can be used.".to_owned(),
        )),
        Err(gate) => match gate.cause {
            GateCause::InstanceNotReady => Some((false, EngineReason::InstanceNotReady, gate.message.clone())),
            // The instance is not what is wrong; the condition keeps what it said.
            GateCause::ClassUnready
            | GateCause::TemplateRejected
            | GateCause::BoundsExceeded
            | GateCause::WriteRefused => None,
        },
    };
    if let Some((ready, reason, message)) = instance {
        set_condition(
            input,
            status,
            EngineCondition::InstanceReady,
            ready,
            reason.into(),
            message,
        );
    }
    let verdict = ready::verdict(&Facts { input, progress });
    let news = set_ready(input, status, &verdict);
    (news && verdict.actionable).then(|| Event::warning(verdict.reason, verdict.message))
}

fn set_ready(input: &Input, status: &mut FireboltEngineStatus, verdict: &Verdict) -> bool {
    let message = verdict.message.clone();
    set_condition(
        input,
        status,
        EngineCondition::Ready,
        verdict.ready,
        &verdict.reason,
        message,
    )
}

/// Says whether reason or message are new.
fn set_condition(
    input: &Input,
    status: &mut FireboltEngineStatus,
    kind: EngineCondition,
    holds: bool,
    reason: &str,
    message: String,
) -> bool {
    let said = Said {
        type_: kind.into(),
        holds,
        reason,
        message,
    };
    condition::set(
        &mut status.conditions,
        said,
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
    use crate::plan::engine::Drain;
    use crate::plan::engine::fixture::{Case, engine, minutes_ago};

    #[test]
    fn a_pass_without_news_writes_no_status() {
        let case = engine("a").serving(0).at(Stable).reported();
        assert_eq!(
            case.but(|case| case.now += jiff::SignedDuration::from_hours(1))
                .plan()
                .status,
            None
        );
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
        assert_eq!(plan.writes, [crate::plan::engine::Write::AddFinalizer]);
        assert_eq!(plan.status, None);
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
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
    fn what_a_person_must_act_on_is_told_once() {
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
    fn the_observed_generation_follows_when_the_roll_is_over() {
        assert_eq!(engine("a").serving(0).at(Stable).status().observed_generation, Some(1));
        assert_eq!(
            engine("a")
                .serving(0)
                .at(Stable)
                .wants("new")
                .status()
                .observed_generation,
            None
        );
        let observed = |case: Case| case.status().observed_generation;
        assert_eq!(observed(engine("a").whole(0).serving(1).at(Draining)), None);
        let blocked = engine("a").serving(0).at(Stable).gate(GateCause::ClassUnready);
        assert_eq!(observed(blocked), None);
    }

    #[test]
    fn auto_stop_is_called_disabled_only_by_an_engine_at_rest_whose_policy_is_known() {
        let said = |case: Case| case.status().auto_stop_reason;
        let at_rest = engine("a").serving(0).at(Stable);
        assert_eq!(said(at_rest.clone()), Some(AutoStopReason::Disabled));
        assert_eq!(said(at_rest.gate(GateCause::ClassUnready)), None);
        assert_eq!(said(engine("a").generation(0, 1).at(Creating)), None);
    }

    #[test]
    fn an_engine_that_comes_to_rest_gets_a_full_idle_time() {
        let case = engine("a").whole(0).serving(1).at(Draining).auto_stop(&[]);
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
