//! Auto-stop: when an engine at rest is parked and when it comes back. An ordered list of rules, of which the first that
//! applies decides.
//!
//! Growing needs a reason that is there now: a fresh wake or an open window. Shrinking needs a whole idle time that was
//! watched from its beginning to its end; the clock starts anew with every activity, every failed count, every wake,
//! every closing window and every rollout.

use std::time::Duration;

use firebolt_api::key::Annotation;
use firebolt_api::{AutoStop, AutoStopReason, FireboltEngineStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::input::{Activity, ActivitySample, Input};
use super::output::Write;
use super::phase::Progress;
use super::schedule::Spans;
use crate::plan::Event;

/// How long a wake is honoured: longer than a cold start between two stamps of the gateway, short enough that a request
/// which was given up does not hold the engine.
pub const WAKE_TTL: Duration = Duration::from_mins(5);
/// The reason of the event that tells of a wake which is not honoured.
pub const WAKE_IGNORED: &str = "WakeIgnored";
/// How much of a stamp that cannot be read is told.
const LONGEST_STAMP: usize = 50;
/// How far the clock of the gateway may be ahead of ours.
pub const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// What auto-stop decided.
#[derive(Debug)]
pub(super) struct Decision {
    reason: AutoStopReason,
    /// The new number of replicas, if it changes.
    scale: Option<i32>,
    last_activity: Option<Timestamp>,
    pub look_again: Option<Duration>,
    pub events: Vec<Event>,
}

impl Decision {
    /// What it sets off begins with the next pass.
    pub fn write(&self, input: &Input) -> Option<Write> {
        let resource_version = input.engine.metadata.resource_version.clone().unwrap_or_default();
        self.scale.map(|to| Write::SetReplicas {
            from: input.replicas(),
            to,
            resource_version,
        })
    }

    pub fn record(&self, input: &Input, status: &mut FireboltEngineStatus) {
        status.auto_stop_reason = Some(self.reason);
        // The same moment keeps the text it has in the cluster, which ends at whole seconds.
        if status.last_activity_time.as_ref().map(|time| time.0) != self.last_activity {
            status.last_activity_time = self.last_activity.map(Time);
        }
        if self.scale.is_some() {
            status.last_scaled_at = Some(Time(input.now));
        }
    }
}

/// The policy, if there is one and it is in force.
pub(super) fn enabled<'a>(input: &Input<'a>) -> Option<&'a AutoStop> {
    let desired = input.desired.as_ref().ok()?;
    desired.auto_stop.as_ref().filter(|policy| policy.enabled)
}

/// Decides for an engine at rest. None without a policy in force, and while rendering is blocked: then the policy is not
/// known for sure.
pub(super) fn decide(input: &Input, progress: Progress) -> Option<Decision> {
    let facts = Facts::new(input, progress, enabled(input)?);
    let choice = RULES
        .iter()
        .find_map(|rule| rule(&facts))
        .unwrap_or_else(|| otherwise(&facts));
    Some(facts.decision(&choice))
}

/// Takes back a stop that is still being announced: whoever asks for the engine now would have to wait for its end and a
/// start, while the pods that are about to go could serve. Nothing else is decided before the engine is at rest.
pub(super) fn call_off(input: &Input, progress: Progress) -> Option<Decision> {
    decide(input, progress).filter(|decision| decision.scale.is_some())
}

struct Facts<'a> {
    policy: &'a AutoStop,
    replicas: i32,
    wake: Wake,
    schedule: Spans,
    sample: Option<&'a ActivitySample>,
    last_activity: Option<Timestamp>,
    said: Option<AutoStopReason>,
    now: Timestamp,
}

/// What the wake annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wake {
    Absent,
    Fresh(Timestamp),
    Expired(Timestamp),
    /// It cannot be believed, or came to nothing.
    Ignored(String),
}

/// What a rule decides.
struct Choice {
    reason: AutoStopReason,
    scale: Option<i32>,
    /// A moment at which the engine was, or counts as, in use.
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

type Rule = fn(&Facts) -> Option<Choice>;

/// The order is the precedence.
const RULES: &[Rule] = &[
    wake_requested,
    schedule_active,
    stopped,
    scrape_failed,
    activity_observed,
    first_quiet,
    idle,
];

/// Brings back an engine that is stopped or parked. One that runs is kept running and not resized, unless an open
/// window has something to say about its size.
fn wake_requested(facts: &Facts) -> Option<Choice> {
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

/// Holds the engine at its active size while a window is open. It never makes a larger one smaller: only a quiet idle
/// time does.
fn schedule_active(facts: &Facts) -> Option<Choice> {
    let active = facts.policy.active_replicas;
    facts.schedule.open().then(|| Choice {
        reason: AutoStopReason::ScheduleActive,
        scale: (facts.replicas < active).then_some(active),
        used: Some(facts.now),
    })
}

fn stopped(facts: &Facts) -> Option<Choice> {
    (facts.replicas == 0).then(|| Choice::keep(AutoStopReason::Stopped))
}

/// A probe that is broken must never look quiet.
fn scrape_failed(facts: &Facts) -> Option<Choice> {
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

fn activity_observed(facts: &Facts) -> Option<Choice> {
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

/// An engine that was never seen in use gets one full idle time from here.
fn first_quiet(facts: &Facts) -> Option<Choice> {
    let sample = facts.sample?;
    facts.last_activity.is_none().then(|| Choice {
        used: Some(sample.taken),
        ..Choice::keep(AutoStopReason::Initializing)
    })
}

fn idle(facts: &Facts) -> Option<Choice> {
    let sample = facts.sample?;
    let quiet = sample.taken.duration_since(facts.quiet_since()?);
    let timeout = SignedDuration::try_from(facts.policy.idle_timeout.get()).unwrap_or(SignedDuration::MAX);
    (quiet >= timeout).then(|| Choice {
        scale: (facts.replicas > facts.policy.idle_replicas).then_some(facts.policy.idle_replicas),
        ..Choice::keep(AutoStopReason::Idle)
    })
}

/// Quiet, but not for long enough; or not counted yet, which decides nothing.
fn otherwise(facts: &Facts) -> Choice {
    Choice::keep(match facts.sample {
        Some(_) => AutoStopReason::ActivityObserved,
        None => facts.said.unwrap_or(AutoStopReason::Initializing),
    })
}

impl<'a> Facts<'a> {
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
            said: status.and_then(|status| status.auto_stop_reason),
            now: input.now,
        }
    }

    /// Since when the engine has been seen to be unused, if it is unused now.
    fn quiet_since(&self) -> Option<Timestamp> {
        let Activity::Quiet { since } = self.sample?.outcome else {
            return None;
        };
        let woken = match self.wake {
            Wake::Fresh(stamp) | Wake::Expired(stamp) => Some(stamp),
            Wake::Absent | Wake::Ignored(_) => None,
        };
        [self.last_activity, woken, self.schedule.last_close()]
            .into_iter()
            .flatten()
            .chain([since])
            .max()
    }

    fn decision(&self, choice: &Choice) -> Decision {
        let mut events = Vec::new();
        if let Wake::Ignored(why) = &self.wake {
            events.push(Event::warning(WAKE_IGNORED, why));
        }
        if let Some(to) = choice.scale {
            events.push(scaled(self.replicas, to, choice.reason));
        }
        Decision {
            reason: choice.reason,
            scale: choice.scale,
            last_activity: self.refreshed(choice),
            look_again: self.look_again(),
            events,
        }
    }

    /// At most one step per poll interval, so that a busy engine costs one write per poll and a decision without a new
    /// sample none. A decision that scales is written anyway, and takes the stamp along.
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

    /// The next edge of a window, to the second; the next poll while there are pods to ask.
    fn look_again(&self) -> Option<Duration> {
        let edge = self.schedule.next_edge().map(|edge| edge.duration_since(self.now));
        let edge = edge.and_then(|until| Duration::try_from(until).ok());
        let poll = (self.replicas > 0).then(|| self.policy.poll_interval.get());
        super::sooner(edge, poll)
    }
}

/// The sample, if it is about the active generation, and recent if it speaks for stopping: two polls without an answer
/// are no observation. What speaks against it may be old: a pod that does not answer takes many short polls to say so.
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
    let Ok(stamp) = text.parse::<Timestamp>() else {
        let text: String = text.chars().take(LONGEST_STAMP).collect();
        return Wake::Ignored(format!(
            "The annotation {key} is ignored: {text:?} is no RFC 3339 time, such as 2026-11-16T08:00:00Z."
        ));
    };
    let age = input.now.duration_since(stamp);
    if age < -SignedDuration::try_from(CLOCK_SKEW).unwrap_or_default() {
        return Wake::Ignored(format!(
            "The annotation {key} is ignored: {text} lies more than a minute ahead. Check the clocks of the gateway and \
             the operator."
        ));
    }
    if age < SignedDuration::try_from(WAKE_TTL).unwrap_or_default() {
        return Wake::Fresh(stamp);
    }
    if input.replicas() <= policy.idle_replicas.max(0) && !answered(input, stamp) {
        return Wake::Ignored(format!(
            "The annotation {key} is ignored: {text} lies more than five minutes back. If it was set just now, check the \
             clocks of the gateway and the operator."
        ));
    }
    Wake::Expired(stamp)
}

/// Whether something has happened to the engine since it was asked for. Every wake leaves its stamp behind, and that of
/// one that was followed is no news.
fn answered(input: &Input, stamp: Timestamp) -> bool {
    let status = input.engine.status.as_ref();
    let times = status.map(|status| [&status.last_activity_time, &status.last_scaled_at]);
    let mut times = times.into_iter().flatten().flatten();
    times.any(|time| time.0 >= stamp)
}

fn scaled(from: i32, to: i32, reason: AutoStopReason) -> Event {
    let why = match reason {
        AutoStopReason::WakeRequested => "a query asked for the engine",
        AutoStopReason::ScheduleActive => "a schedule window is open",
        AutoStopReason::Idle => "no query ran for the whole idle time",
        AutoStopReason::Disabled
        | AutoStopReason::Stopped
        | AutoStopReason::Initializing
        | AutoStopReason::ActivityObserved
        | AutoStopReason::ScrapeFailed => "auto-stop decided so",
    };
    let direction = if to > from { "ScaledUp" } else { "ScaledDown" };
    Event::normal(direction, format!("Replicas go from {from} to {to}: {why}."))
}

#[cfg(test)]
mod tests;
