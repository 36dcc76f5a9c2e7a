//! The next status, which is written once per reconcile, and the events about its changes.

use std::time::Duration;

use firebolt_api::condition::{InstanceCondition, InstanceReason};
use firebolt_api::{FireboltInstance, FireboltInstanceStatus, InstancePhase};
use jiff::Timestamp;

use super::component::{ComponentPlan, ComponentReadiness};
use super::input::{Credentials, Input};
use super::kstatus;
use super::object::{Component, InstanceObject};
use super::output::Plan;
use crate::plan::PlannedEvent;
use crate::plan::condition::{self, ConditionUpdate};
use crate::plan::kstatus::Outlook;

/// The next values of all conditions.
pub(super) struct InstanceReadiness {
    pub ready: ComponentReadiness,
    pub metadata: ComponentReadiness,
    pub gateway: ComponentReadiness,
}

/// The end of a reconcile of all components. `over` is the `Ready` condition of the instance, if it does not follow
/// from its components.
pub(super) fn conclude(input: &Input, component_plans: [ComponentPlan; 3], over: Option<ComponentReadiness>) -> Plan {
    let requeue_after = component_plans.iter().filter_map(|step| step.requeue_after).min();
    let [postgres, metadata, gateway] = component_plans;
    let readiness = InstanceReadiness {
        ready: over.unwrap_or_else(|| roll_up(input, &postgres.readiness, &metadata.readiness, &gateway.readiness)),
        metadata: metadata.readiness,
        gateway: gateway.readiness,
    };
    let writes = [postgres.writes, metadata.writes, gateway.writes].concat();
    // What is being written, or was written and not observed by Kubernetes yet, is not reflected in the status.
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
    let (status, events) = next(input, &readiness, observed);
    Plan {
        writes,
        status,
        events,
        requeue_after,
        throttle: None,
    }
}

/// The instance is ready if all components are. Otherwise it has the message of the first component that is not.
fn roll_up(
    input: &Input,
    postgres: &ComponentReadiness,
    metadata: &ComponentReadiness,
    gateway: &ComponentReadiness,
) -> ComponentReadiness {
    if postgres.reason == InstanceReason::PostgresSwitchRefused {
        return postgres.clone();
    }
    // What cannot be solved by a retry comes first.
    let readiness = [metadata, gateway];
    let failure = readiness.into_iter().find(|readiness| readiness.is_failure());
    match failure.or_else(|| readiness.into_iter().find(|readiness| !readiness.ready)) {
        None => {
            let doubt = match input.observed.workloads.get(&Component::Postgres) {
                Some(workload) if !workload.serves(Component::Postgres) => format!(" {}", postgres.message),
                Some(_) | None => String::new(),
            };
            ComponentReadiness {
                reason: InstanceReason::AllComponentsReady,
                ..ComponentReadiness::ready(format!("The metadata service and the gateway are ready.{doubt}"))
            }
        }
        Some(readiness) => {
            let unseen = !input.observed.workloads.contains_key(&Component::Metadata);
            let starting = unseen && readiness.reason == InstanceReason::Provisioning;
            let reason = if starting {
                InstanceReason::Initializing
            } else {
                readiness.reason
            };
            ComponentReadiness::not_ready(reason, readiness.message.clone())
        }
    }
}

/// The status with these conditions, if it changed, and the events about the change.
fn next(
    input: &Input,
    readiness: &InstanceReadiness,
    observed: Option<i64>,
) -> (Option<FireboltInstanceStatus>, Vec<PlannedEvent>) {
    let before = input.instance.status.clone().unwrap_or_default();
    let endpoint = |readiness: &ComponentReadiness, endpoint: &String| {
        if readiness.ready {
            endpoint.clone()
        } else {
            String::new()
        }
    };
    let mut status = FireboltInstanceStatus {
        observed_generation: observed,
        phase: Some(phase(input, before.phase, readiness)),
        metadata_ready: readiness.metadata.ready,
        metadata_endpoint: endpoint(&readiness.metadata, &input.desired.metadata_endpoint),
        gateway_ready: readiness.gateway.ready,
        gateway_endpoint: endpoint(&readiness.gateway, &input.desired.gateway_endpoint),
        conditions: before.conditions,
    };
    let changed_ready = [
        (InstanceCondition::Ready, &readiness.ready),
        (InstanceCondition::MetadataReady, &readiness.metadata),
        (InstanceCondition::GatewayReady, &readiness.gateway),
    ]
    .map(|(kind, readiness)| set(&mut status, kind, readiness, input.now));
    set_outdated(input, &mut status);
    kstatus::report(&mut status, kstatus::outlook(input, &readiness.ready), input.now);
    let events = events(before.phase, &status, readiness, changed_ready[0]);
    let changed = input.instance.status.as_ref() != Some(&status);
    (changed.then_some(status), events)
}

fn set(
    status: &mut FireboltInstanceStatus,
    kind: InstanceCondition,
    readiness: &ComponentReadiness,
    now: Timestamp,
) -> bool {
    let update = ConditionUpdate {
        type_: kind.into(),
        holds: readiness.ready,
        reason: readiness.reason.into(),
        message: readiness.message.clone(),
    };
    condition::set(&mut status.conditions, update, status.observed_generation, now)
}

/// Sets or removes the condition that another version of the operator rendered the pods of a component.
fn set_outdated(input: &Input, status: &mut FireboltInstanceStatus) {
    // Without the credentials, the metadata service cannot be rendered.
    if input.observed.credentials != Credentials::Usable {
        return;
    }
    let names = input.observed.outdated.iter().map(|component| match component {
        Component::Postgres => "PostgreSQL",
        Component::Metadata => "the metadata service",
        Component::Gateway => "the gateway",
    });
    let names: Vec<&str> = names.collect();
    let Some((last, others)) = names.split_last() else {
        condition::remove(&mut status.conditions, InstanceCondition::RenderingOutdated.into());
        return;
    };
    let names = match others {
        [] => (*last).to_owned(),
        others => format!("{} and {last}", others.join(", ")),
    };
    let message = format!(
        "Another version of the operator rendered the pods of {names}; this one renders them differently. The next change \
         of the settings of a component adopts that. To adopt it without a change, see the handbook on upgrades."
    );
    let update = ConditionUpdate {
        type_: InstanceCondition::RenderingOutdated.into(),
        holds: true,
        reason: InstanceReason::OperatorUpgraded.into(),
        message,
    };
    condition::set(&mut status.conditions, update, status.observed_generation, input.now);
}

fn phase(input: &Input, before: Option<InstancePhase>, readiness: &InstanceReadiness) -> InstancePhase {
    let failed = [&readiness.ready, &readiness.metadata, &readiness.gateway]
        .into_iter()
        .any(ComponentReadiness::is_failure);
    let was_ready = match before {
        Some(InstancePhase::Ready | InstancePhase::Degraded) => true,
        // The gateway is created after everything else was ready for the first time.
        Some(InstancePhase::Failed) => input.observed.objects.contains_key(&InstanceObject::GatewayDeployment),
        Some(InstancePhase::Provisioning) | None => false,
    };
    match (readiness.ready.ready, was_ready) {
        _ if failed => InstancePhase::Failed,
        (true, _) => InstancePhase::Ready,
        (false, true) => InstancePhase::Degraded,
        (false, false) => InstancePhase::Provisioning,
    }
}

/// A problem that a person has to solve is reported with its own reason, anything else as the new phase.
fn events(
    before: Option<InstancePhase>,
    status: &FireboltInstanceStatus,
    readiness: &InstanceReadiness,
    changed_ready: bool,
) -> Vec<PlannedEvent> {
    let ComponentReadiness { reason, message, .. } = &readiness.ready;
    if readiness.ready.is_actionable() {
        return changed_ready
            .then(|| PlannedEvent::warning(<&str>::from(*reason), message.clone()))
            .into_iter()
            .collect();
    }
    let Some(phase) = status.phase.filter(|phase| before != Some(*phase)) else {
        return Vec::new();
    };
    let event = match phase {
        InstancePhase::Provisioning | InstancePhase::Ready => {
            PlannedEvent::normal(<&str>::from(phase), message.clone())
        }
        InstancePhase::Degraded | InstancePhase::Failed => PlannedEvent::warning(<&str>::from(phase), message.clone()),
    };
    vec![event]
}

/// A plan that only writes this status.
pub(super) fn only(input: &Input, readiness: &InstanceReadiness, requeue_after: Option<Duration>) -> Plan {
    let (status, events) = next(input, readiness, input.instance.metadata.generation);
    Plan {
        writes: Vec::new(),
        status,
        events,
        requeue_after,
        throttle: None,
    }
}

/// The status of an instance that cannot be reconciled, for this reason; `None` if it would not change.
pub(super) fn stuck(instance: &FireboltInstance, message: String, now: Timestamp) -> Option<FireboltInstanceStatus> {
    let before = instance.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.phase.get_or_insert(InstancePhase::Provisioning);
    if status.phase == Some(InstancePhase::Ready) {
        status.phase = Some(InstancePhase::Degraded);
    }
    // A person has to act, which tools notice only if the status is about the latest edit.
    status.observed_generation = instance.metadata.generation;
    let readiness = ComponentReadiness::not_ready(InstanceReason::EnsureFailed, message);
    set(&mut status, InstanceCondition::Ready, &readiness, now);
    kstatus::report(&mut status, Outlook::Stalled, now);
    (status != before).then_some(status)
}
