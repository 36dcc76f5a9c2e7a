//! Auto-stop: when a stable engine is stopped and when it is started again. The first rule of an ordered list that
//! applies decides.
//!
//! Scaling up needs a current reason: a fresh wake request or an open schedule window. Scaling down needs a whole idle
//! timeout that was observed without a gap; it restarts with every activity, every failed count, every wake request,
//! every window that closes and every rollout.

use std::time::Duration;

use firebolt_api::key::Annotation;
use firebolt_api::{AutoStop, AutoStopReason, FireboltEngineStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::input::{Activity, ActivitySample, GateCause, Input};
use super::output::EngineWrite;
use super::progress::Progress;
use super::schedule::Spans;
use crate::plan::PlannedEvent;

/// How long a wake request is valid: longer than a cold start between two wake requests of the gateway, short enough
/// that an abandoned request does not keep the engine running.
pub const WAKE_TTL: Duration = Duration::from_mins(5);
/// Reason of the event about a wake request that is ignored.
pub const WAKE_IGNORED: &str = "WakeIgnored";
/// Number of characters of an invalid wake request that are reported.
const LONGEST_WAKE_REQUEST: usize = 50;
/// How far the clock of the gateway may be ahead of the clock of the operator.
pub const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// The result of the auto-stop rules.
#[derive(Debug)]
pub(super) struct AutoStopDecision {
    reason: AutoStopReason,
    /// New number of replicas, if it changes.
    scale: Option<i32>,
    last_activity: Option<Timestamp>,
    pub requeue_after: Option<Duration>,
    pub events: Vec<PlannedEvent>,
}

impl AutoStopDecision {
    /// Its effects begin with the next reconcile.
    pub(super) fn write(&self, input: &Input) -> Option<EngineWrite> {
        let resource_version = input.engine.metadata.resource_version.clone().unwrap_or_default();
        self.scale.map(|to| EngineWrite::SetReplicas {
            from: input.replicas(),
            to,
            resource_version,
        })
    }

    pub(super) fn record(&self, input: &Input, status: &mut FireboltEngineStatus) {
        status.auto_stop_reason = Some(self.reason);
        // The same time keeps its text in the cluster, which has whole seconds.
        if status.last_activity_time.as_ref().map(|time| time.0) != self.last_activity {
            status.last_activity_time = self.last_activity.map(Time);
        }
        if self.scale.is_some() {
            status.last_scaled_at = Some(Time(input.now));
        }
    }
}

/// The policy, if there is one and it is enabled.
pub(super) fn enabled<'a>(input: &Input<'a>) -> Option<&'a AutoStop> {
    input.auto_stop.filter(|policy| policy.enabled)
}

/// Decides for a stable or stopped engine. `None` if no policy is enabled. Without its instance an engine can be stopped, but
/// a wake request waits.
pub(super) fn decide(input: &Input, progress: Progress) -> Option<AutoStopDecision> {
    let facts = AutoStopFacts::new(input, progress, enabled(input)?);
    let choice = RULES
        .iter()
        .find_map(|rule| rule(&facts))
        .unwrap_or_else(|| otherwise(&facts));
    let grows = choice.scale.is_some_and(|to| to > input.replicas());
    let is_held_up = matches!(input.desired, Err(gate) if gate.cause == GateCause::InstanceNotReady);
    (!grows || !is_held_up).then(|| facts.decision(&choice))
}

/// Cancels a stop that is still being announced: a query that arrives now would otherwise have to wait for the stop and
/// a start, although the pods that are about to be deleted could serve it. No other decision is made before the engine
/// is stable.
pub(super) fn call_off(input: &Input, progress: Progress) -> Option<AutoStopDecision> {
    decide(input, progress).filter(|decision| decision.scale.is_some())
}

struct AutoStopFacts<'a> {
    policy: &'a AutoStop,
    replicas: i32,
    wake: Wake,
    schedule: Spans,
    sample: Option<&'a ActivitySample>,
    last_activity: Option<Timestamp>,
    last_reason: Option<AutoStopReason>,
    now: Timestamp,
}

/// State of the wake request annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wake {
    Absent,
    Fresh(Timestamp),
    Expired(Timestamp),
    /// It is invalid, or it expired without an effect.
    Ignored(String),
}

/// The result of one rule.
struct Choice {
    reason: AutoStopReason,
    scale: Option<i32>,
    /// A time at which the engine was, or counts as, in use.
    used: Option<Timestamp>,
}

impl Choice {
    fn keep(reason: AutoStopReason) -> Self {
        Self {
            reason,
            scale: None,
            used: None,
        }
    }
}

type Rule = fn(&AutoStopFacts) -> Option<Choice>;

/// In order of precedence.
const RULES: &[Rule] = &[
    wake_requested,
    schedule_active,
    stopped,
    scrape_failed,
    activity_observed,
    first_quiet,
    idle,
];

/// Starts an engine that is stopped or scaled to its idle size. A running engine is kept running and not resized,
/// unless an open schedule window determines its size.
fn wake_requested(facts: &AutoStopFacts) -> Option<Choice> {
    let Wake::Fresh(_) = facts.wake else { return None };
    let active = facts.policy.active_replicas;
    let parked = facts.replicas <= facts.policy.idle_replicas.max(0);
    if facts.replicas < active && !parked && facts.schedule.open() {
        return None;
    }
    Some(Choice {
        reason: AutoStopReason::WakeRequested,
        scale: (facts.replicas < active && parked).then_some(active),
        used: Some(facts.now),
    })
}

/// Keeps the engine at its active size while a window is open. It never scales a larger one down: only an idle timeout
/// does.
fn schedule_active(facts: &AutoStopFacts) -> Option<Choice> {
    let active = facts.policy.active_replicas;
    facts.schedule.open().then(|| Choice {
        reason: AutoStopReason::ScheduleActive,
        scale: (facts.replicas < active).then_some(active),
        used: Some(facts.now),
    })
}

fn stopped(facts: &AutoStopFacts) -> Option<Choice> {
    (facts.replicas == 0).then(|| Choice::keep(AutoStopReason::Stopped))
}

/// A failed count must never be taken for an idle engine.
fn scrape_failed(facts: &AutoStopFacts) -> Option<Choice> {
    let sample = facts.sample?;
    let used = |reason| Choice {
        used: Some(sample.taken),
        ..Choice::keep(reason)
    };
    match sample.outcome {
        Activity::Failed { .. } => Some(used(AutoStopReason::ScrapeFailed)),
        Activity::Busy(_) | Activity::Quiet { .. } => None,
    }
}

fn activity_observed(facts: &AutoStopFacts) -> Option<Choice> {
    let sample = facts.sample?;
    let used = |reason| Choice {
        used: Some(sample.taken),
        ..Choice::keep(reason)
    };
    match sample.outcome {
        Activity::Busy(_) => Some(used(AutoStopReason::ActivityObserved)),
        Activity::Failed { .. } | Activity::Quiet { .. } => None,
    }
}

/// An engine that was never observed in use gets one full idle timeout from now on.
fn first_quiet(facts: &AutoStopFacts) -> Option<Choice> {
    let sample = facts.sample?;
    facts.last_activity.is_none().then(|| Choice {
        used: Some(sample.taken),
        ..Choice::keep(AutoStopReason::Initializing)
    })
}

fn idle(facts: &AutoStopFacts) -> Option<Choice> {
    let sample = facts.sample?;
    let quiet = sample.taken.duration_since(facts.quiet_since()?);
    let timeout = SignedDuration::try_from(facts.policy.idle_timeout.get()).unwrap_or(SignedDuration::MAX);
    (quiet >= timeout).then(|| Choice {
        scale: (facts.replicas > facts.policy.idle_replicas).then_some(facts.policy.idle_replicas),
        ..Choice::keep(AutoStopReason::Idle)
    })
}

/// Idle, but not for long enough; or not counted yet, which decides nothing.
fn otherwise(facts: &AutoStopFacts) -> Choice {
    Choice::keep(match facts.sample {
        Some(_) => AutoStopReason::ActivityObserved,
        None => facts.last_reason.unwrap_or(AutoStopReason::Initializing),
    })
}

impl<'a> AutoStopFacts<'a> {
    fn new(input: &Input<'a>, progress: Progress, policy: &'a AutoStop) -> Self {
        let status = input.engine.status.as_ref();
        Self {
            policy,
            replicas: input.replicas(),
            wake: wake(input, policy),
            schedule: Spans::around(&policy.schedule, input.now),
            sample: usable_sample(input, progress, policy),
            last_activity: status
                .and_then(|status| status.last_activity_time.as_ref())
                .map(|time| time.0),
            last_reason: status.and_then(|status| status.auto_stop_reason),
            now: input.now,
        }
    }

    /// Since when the engine has been observed to be unused, if it is unused now.
    fn quiet_since(&self) -> Option<Timestamp> {
        let Activity::Quiet { since } = self.sample?.outcome else {
            return None;
        };
        let woken = match self.wake {
            Wake::Fresh(requested) | Wake::Expired(requested) => Some(requested),
            Wake::Absent | Wake::Ignored(_) => None,
        };
        [self.last_activity, woken, self.schedule.last_close()]
            .into_iter()
            .flatten()
            .chain([since])
            .max()
    }

    fn decision(&self, choice: &Choice) -> AutoStopDecision {
        let mut events = Vec::new();
        if let Wake::Ignored(why) = &self.wake {
            events.push(PlannedEvent::warning(WAKE_IGNORED, why));
        }
        if let Some(to) = choice.scale {
            events.push(scaled(self.replicas, to, choice.reason));
        }
        AutoStopDecision {
            reason: choice.reason,
            scale: choice.scale,
            last_activity: self.refreshed(choice),
            requeue_after: self.requeue_after(),
            events,
        }
    }

    /// At most one update per poll interval, so that a busy engine costs one write per poll and a decision without a
    /// new sample none. A decision that scales is written anyway and includes the time.
    fn refreshed(&self, choice: &Choice) -> Option<Timestamp> {
        let poll = self.policy.poll_interval.get();
        match (self.last_activity, choice.used) {
            (last, None) => last,
            (None, used) => used,
            (Some(last), Some(used)) => {
                let due = choice.scale.is_some() || last.checked_add(poll).is_ok_and(|due| used >= due);
                Some(if due { used.max(last) } else { last })
            }
        }
    }

    /// The next start or end of a window, to the second; or the next poll while there are pods to scrape.
    fn requeue_after(&self) -> Option<Duration> {
        let edge = self.schedule.next_edge().map(|edge| edge.duration_since(self.now));
        let edge = edge.and_then(|until| Duration::try_from(until).ok());
        let poll = (self.replicas > 0).then(|| self.policy.poll_interval.get());
        super::sooner(edge, poll)
    }
}

/// The sample, if it is about the active generation and, if it is in favour of stopping, recent: two polls without a
/// response are no observation. A sample against stopping may be old, because a pod that does not respond takes many
/// short polls to time out.
fn usable_sample<'a>(input: &Input<'a>, progress: Progress, policy: &AutoStop) -> Option<&'a ActivitySample> {
    let sample = input.observed.activity.as_ref()?;
    let age = Duration::try_from(input.now.duration_since(sample.taken)).unwrap_or_default();
    let counts = match sample.outcome {
        Activity::Quiet { .. } => age <= policy.poll_interval.get() * 2,
        Activity::Busy(_) | Activity::Failed { .. } => true,
    };
    (counts && progress.active == Some(sample.generation)).then_some(sample)
}

fn wake(input: &Input, policy: &AutoStop) -> Wake {
    let annotations = input.engine.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|annotations| annotations.get(Annotation::WakeRequested.key())) else {
        return Wake::Absent;
    };
    let key = Annotation::WakeRequested;
    let Ok(requested) = text.parse::<Timestamp>() else {
        let text: String = text.chars().take(LONGEST_WAKE_REQUEST).collect();
        return Wake::Ignored(format!(
            "Ignored annotation {key}: {text:?} is not an RFC 3339 time such as 2026-11-16T08:00:00Z."
        ));
    };
    let age = input.now.duration_since(requested);
    if age < -SignedDuration::try_from(CLOCK_SKEW).unwrap_or_default() {
        return Wake::Ignored(format!(
            "Ignored annotation {key}: {text} is more than one minute in the future. Check the clocks of the gateway \
             and the operator."
        ));
    }
    if age < SignedDuration::try_from(WAKE_TTL).unwrap_or_default() {
        return Wake::Fresh(requested);
    }
    if input.replicas() <= policy.idle_replicas.max(0) && !answered(input, requested) {
        return Wake::Ignored(format!(
            "Ignored annotation {key}: {text} is more than five minutes in the past. If it was set just now, check the \
             clocks of the gateway and the operator."
        ));
    }
    Wake::Expired(requested)
}

/// Whether the engine was active or scaled since the wake request. Every request leaves its annotation behind, and one
/// that was followed needs no report.
fn answered(input: &Input, requested: Timestamp) -> bool {
    let status = input.engine.status.as_ref();
    let times = status.map(|status| [&status.last_activity_time, &status.last_scaled_at]);
    let mut times = times.into_iter().flatten().flatten();
    times.any(|time| time.0 >= requested)
}

fn scaled(from: i32, to: i32, reason: AutoStopReason) -> PlannedEvent {
    let why = match reason {
        AutoStopReason::WakeRequested => "wake requested by a query",
        AutoStopReason::ScheduleActive => "a schedule window is open",
        AutoStopReason::Idle => "no query within autoStop.idleTimeout",
        AutoStopReason::Disabled
        | AutoStopReason::Stopped
        | AutoStopReason::Initializing
        | AutoStopReason::ActivityObserved
        | AutoStopReason::ScrapeFailed => "decided by auto-stop",
    };
    let direction = if to > from { "ScaledUp" } else { "ScaledDown" };
    PlannedEvent::normal(direction, format!("Scaled from {from} to {to}: {why}."))
}

#[cfg(test)]
mod tests;
