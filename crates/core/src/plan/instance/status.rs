//! The next status, the one write of it per pass, and what its changes tell people.

use std::time::Duration;

use firebolt_api::condition::{InstanceCondition, InstanceReason};
use firebolt_api::{FireboltInstanceStatus, InstancePhase};
use jiff::Timestamp;

use super::input::Input;
use super::output::{Component, Object, Plan};
use super::step::{Step, Verdict};
use crate::plan::Event;
use crate::plan::condition::{self, Said};

/// What all conditions say.
pub(super) struct Verdicts {
    pub ready: Verdict,
    pub metadata: Verdict,
    pub gateway: Verdict,
}

/// The end of a pass over all components. `over` is what is to be said of the instance as a whole, if not what its
/// components say.
pub(super) fn conclude(input: &Input, steps: [Step; 3], over: Option<Verdict>) -> Plan {
    let look_again = steps.iter().filter_map(|step| step.look_again).min();
    let [postgres, metadata, gateway] = steps;
    let verdicts = Verdicts {
        ready: over.unwrap_or_else(|| roll_up(input, &postgres.verdict, &metadata.verdict, &gateway.verdict)),
        metadata: metadata.verdict,
        gateway: gateway.verdict,
    };
    let writes = [postgres.writes, metadata.writes, gateway.writes].concat();
    // What is being written, or was and Kubernetes has not looked yet, is not what was looked at.
    let seen = input.observed.workloads.values().all(|workload| workload.observed);
    let observed = if writes.is_empty() && seen {
        input.instance.metadata.generation
    } else {
        input
            .instance
            .status
            .as_ref()
            .and_then(|status| status.observed_generation)
    };
    let (status, events) = next(input, &verdicts, observed);
    Plan {
        writes,
        status,
        events,
        look_again,
    }
}

/// The instance is ready if all of it is. If not, it says what the first says that is not.
fn roll_up(input: &Input, postgres: &Verdict, metadata: &Verdict, gateway: &Verdict) -> Verdict {
    if postgres.reason == InstanceReason::PostgresSwitchRefused {
        return postgres.clone();
    }
    // What cannot go on by itself comes first.
    let verdicts = [metadata, gateway];
    let failure = verdicts.into_iter().find(|verdict| verdict.is_failure());
    match failure.or_else(|| verdicts.into_iter().find(|verdict| !verdict.ready)) {
        None => {
            let doubt = match input.observed.workloads.get(&Component::Postgres) {
                Some(workload) if !workload.serves(Component::Postgres) => format!(" {}", postgres.message),
                Some(_) | None => String::new(),
            };
            Verdict {
                reason: InstanceReason::AllComponentsReady,
                ..Verdict::ready(format!("The metadata service and the gateway are ready.{doubt}"))
            }
        }
        Some(verdict) => {
            let unseen = !input.observed.workloads.contains_key(&Component::Metadata);
            let starting = unseen && verdict.reason == InstanceReason::Provisioning;
            let reason = if starting {
                InstanceReason::Initializing
            } else {
                verdict.reason
            };
            Verdict::not_ready(reason, verdict.message.clone())
        }
    }
}

/// The status with these conditions, if it says anything new, and what is to be told.
fn next(input: &Input, verdicts: &Verdicts, observed: Option<i64>) -> (Option<FireboltInstanceStatus>, Vec<Event>) {
    let before = input.instance.status.clone().unwrap_or_default();
    let endpoint = |verdict: &Verdict, endpoint: &String| {
        if verdict.ready { endpoint.clone() } else { String::new() }
    };
    let mut status = FireboltInstanceStatus {
        observed_generation: observed,
        phase: Some(phase(input, before.phase, verdicts)),
        metadata_ready: verdicts.metadata.ready,
        metadata_endpoint: endpoint(&verdicts.metadata, &input.wanted.metadata_endpoint),
        gateway_ready: verdicts.gateway.ready,
        gateway_endpoint: endpoint(&verdicts.gateway, &input.wanted.gateway_endpoint),
        conditions: before.conditions,
    };
    let news = [
        (InstanceCondition::Ready, &verdicts.ready),
        (InstanceCondition::MetadataReady, &verdicts.metadata),
        (InstanceCondition::GatewayReady, &verdicts.gateway),
    ]
    .map(|(kind, verdict)| set(&mut status, kind, verdict, input.now));
    let events = events(before.phase, &status, verdicts, news[0]);
    let changed = input.instance.status.as_ref() != Some(&status);
    (changed.then_some(status), events)
}

fn set(status: &mut FireboltInstanceStatus, kind: InstanceCondition, verdict: &Verdict, now: Timestamp) -> bool {
    let said = Said {
        type_: kind.into(),
        holds: verdict.ready,
        reason: verdict.reason.into(),
        message: verdict.message.clone(),
    };
    condition::set(&mut status.conditions, said, status.observed_generation, now)
}

fn phase(input: &Input, before: Option<InstancePhase>, verdicts: &Verdicts) -> InstancePhase {
    let failed = [&verdicts.ready, &verdicts.metadata, &verdicts.gateway]
        .into_iter()
        .any(Verdict::is_failure);
    let was_ready = match before {
        Some(InstancePhase::Ready | InstancePhase::Degraded) => true,
        // The gateway is made when everything else was ready for the first time.
        Some(InstancePhase::Failed) => input.observed.objects.contains_key(&Object::GatewayDeployment),
        Some(InstancePhase::Provisioning) | None => false,
    };
    match (verdicts.ready.ready, was_ready) {
        _ if failed => InstancePhase::Failed,
        (true, _) => InstancePhase::Ready,
        (false, true) => InstancePhase::Degraded,
        (false, false) => InstancePhase::Provisioning,
    }
}

/// What a person must act on is told by its own name, anything else as the phase that it leads to.
fn events(
    before: Option<InstancePhase>,
    status: &FireboltInstanceStatus,
    verdicts: &Verdicts,
    news: bool,
) -> Vec<Event> {
    let Verdict { reason, message, .. } = &verdicts.ready;
    if verdicts.ready.is_actionable() {
        return news
            .then(|| Event::warning(<&str>::from(*reason), message.clone()))
            .into_iter()
            .collect();
    }
    let Some(phase) = status.phase.filter(|phase| before != Some(*phase)) else {
        return Vec::new();
    };
    let event = match phase {
        InstancePhase::Provisioning | InstancePhase::Ready => Event::normal(<&str>::from(phase), message.clone()),
        InstancePhase::Degraded | InstancePhase::Failed => Event::warning(<&str>::from(phase), message.clone()),
    };
    vec![event]
}

/// Nothing is to be done but this status.
pub(super) fn only(input: &Input, verdicts: &Verdicts, look_again: Option<Duration>) -> Plan {
    let (status, events) = next(input, verdicts, input.instance.metadata.generation);
    Plan {
        writes: Vec::new(),
        status,
        events,
        look_again,
    }
}

/// The status of an instance that cannot be looked after at all, for this reason; none if that is what it says.
pub(super) fn stuck(input: &Input, message: String) -> Option<FireboltInstanceStatus> {
    let before = input.instance.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.phase.get_or_insert(InstancePhase::Provisioning);
    if status.phase == Some(InstancePhase::Ready) {
        status.phase = Some(InstancePhase::Degraded);
    }
    let verdict = Verdict::not_ready(InstanceReason::EnsureFailed, message);
    set(&mut status, InstanceCondition::Ready, &verdict, input.now);
    (status != before).then_some(status)
}
