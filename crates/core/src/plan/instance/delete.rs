//! Deletion of an instance: the gateway first, then the metadata service, then PostgreSQL, its data and its password.

use std::time::Duration;

use firebolt_api::condition::InstanceReason;
use firebolt_api::key::Finalizer;
use strum::IntoEnumIterator;

use super::component::{BLOCKED_RECHECK, ComponentReadiness};
use super::component_plans;
use super::input::{Credentials, Input, Leftover, Order};
use super::object::{Component, InstanceObject};
use super::output::{InstanceWrite, Plan};
use super::status::{self, InstanceReadiness};
use crate::database::Database;
use crate::names;
use crate::plan::{EXTERNAL_FINALIZER, PlannedEvent, has_finalizer};

/// How soon the cleanup checks again for objects that are being deleted. Claims are not watched.
const GOING: Duration = Duration::from_secs(5);
/// With this finalizer on the instance, Kubernetes deletes the objects that the instance owns.
const FOREGROUND: &str = "foregroundDeletion";
/// With this finalizer on the instance, all other objects are to be kept.
const ORPHAN: &str = "orphan";
/// Number of finalizers of one object that a message names.
const MOST_FINALIZERS: usize = 3;

/// Deletes every object of the instance, unless engines depend on it. The plan waits for each deletion, but an
/// object that is blocked by the finalizer of another controller is reported and left behind.
pub(super) fn plan(input: &Input) -> Plan {
    if !has_finalizer(&input.instance.metadata, Finalizer::Instance.key()) {
        return Plan::default();
    }
    if has_finalizer(&input.instance.metadata, ORPHAN) {
        return Plan {
            writes: vec![InstanceWrite::RemoveFinalizer],
            ..Plan::default()
        };
    }
    if !input.observed.engines.is_empty() {
        return blocked(input);
    }
    let held = held_by_others(input);
    let events: Vec<PlannedEvent> = held
        .iter()
        .map(|held| PlannedEvent::warning(EXTERNAL_FINALIZER, held))
        .collect();
    let stage = stages()
        .map(|(component, order)| (component, of_stage(input, component, order)))
        .find(|(_, leftovers)| leftovers.iter().any(|leftover| blocks_deletion(leftover)));
    let readiness = match &stage {
        _ if !held.is_empty() => ComponentReadiness::not_ready(InstanceReason::ExternalFinalizer, held.join("\n")),
        Some((component, leftovers)) => deleting(format!("Deleting {component}: {}.", blocking(leftovers))),
        None => deleting("All objects are deleted.".to_owned()),
    };
    let mut plan = status::only(input, &all(&readiness), Some(GOING));
    plan.events = events;
    match stage {
        Some((_, leftovers)) => plan.writes = leftovers.into_iter().filter_map(delete).collect(),
        // Blocked objects are reported first: afterwards there is no object left to report them on.
        None if !held.is_empty() && plan.status.is_some() => plan.requeue_after = Some(Duration::ZERO),
        None => {
            plan.writes = vec![InstanceWrite::RemoveFinalizer];
            plan.status = None;
            plan.requeue_after = None;
        }
    }
    plan
}

/// Engines depend on it, so it is kept and still reconciled.
fn blocked(input: &Input) -> Plan {
    let message = format!(
        "The instance cannot be deleted while it is referenced by {}. Delete these engines; the deletion then \
         continues automatically.",
        names::engines(&input.observed.engines)
    );
    let readiness = ComponentReadiness::not_ready(InstanceReason::DeletionBlocked, message);
    // Kubernetes is deleting everything, and creating it again would never end; or it has deleted everything already,
    // and what would be created is empty.
    if has_finalizer(&input.instance.metadata, FOREGROUND) || !is_whole(input) {
        return status::only(input, &all(&readiness), Some(BLOCKED_RECHECK));
    }
    let plan = status::conclude(input, component_plans(input), Some(readiness));
    Plan {
        requeue_after: Some(BLOCKED_RECHECK),
        ..plan
    }
}

/// Whether every object that stores data, or provides access to it, exists and is not being deleted.
fn is_whole(input: &Input) -> bool {
    let stays = |object: &InstanceObject| {
        let child = input.observed.objects.get(object);
        child.is_some_and(|child| !child.meta.terminating)
    };
    let set = match input.desired.database {
        Database::Internal => stays(&InstanceObject::PostgresSet),
        Database::External => true,
    };
    set && stays(&InstanceObject::MetadataDeployment) && input.observed.credentials != Credentials::Missing
}

fn deleting(message: String) -> ComponentReadiness {
    ComponentReadiness::not_ready(InstanceReason::Deleting, message)
}

fn all(readiness: &ComponentReadiness) -> InstanceReadiness {
    InstanceReadiness {
        ready: readiness.clone(),
        metadata: readiness.clone(),
        gateway: readiness.clone(),
    }
}

/// Components in reverse order. Of each, the objects with pods first, then the objects that the pods need.
fn stages() -> impl Iterator<Item = (Component, Order)> {
    Component::iter()
        .rev()
        .flat_map(|component| Order::iter().map(move |order| (component, order)))
}

fn of_stage<'a>(input: &Input<'a>, component: Component, order: Order) -> Vec<&'a Leftover> {
    let leftovers = input.observed.leftovers.iter();
    leftovers
        .filter(|leftover| leftover.meta.owned && leftover.component == component && leftover.order == order)
        .collect()
}

/// It is not deleted yet, or it is being deleted and no other controller blocks that. The plan waits for blocked data
/// as well: it would be useless without its password, which is deleted next.
fn blocks_deletion(leftover: &Leftover) -> bool {
    let data = leftover.order == Order::Data;
    data || !leftover.meta.terminating || leftover.meta.foreign_finalizers.is_empty()
}

fn blocking(leftovers: &[&Leftover]) -> String {
    let names = leftovers.iter().filter(|leftover| blocks_deletion(leftover));
    let names: Vec<String> = names
        .map(|leftover| format!("{} {}", leftover.kind, leftover.name))
        .collect();
    names.join(", ")
}

fn delete(leftover: &Leftover) -> Option<InstanceWrite> {
    (!leftover.meta.terminating).then(|| InstanceWrite::Delete {
        kind: leftover.kind,
        name: leftover.name.clone(),
        uid: leftover.meta.uid.clone(),
    })
}

fn held_by_others(input: &Input) -> Vec<String> {
    let owned = input.observed.leftovers.iter().filter(|leftover| leftover.meta.owned);
    let held = owned.filter(|leftover| leftover.meta.terminating && !leftover.meta.foreign_finalizers.is_empty());
    held.map(|leftover| {
        let Leftover { kind, name, meta, .. } = leftover;
        let finalizers = meta.foreign_finalizers.iter().take(MOST_FINALIZERS).cloned();
        let finalizers = finalizers.collect::<Vec<_>>().join(", ");
        if blocks_deletion(leftover) {
            format!(
                "The finalizer {finalizers} blocks the deletion of {kind} {name}. The Secret with the database password \
                 and the instance are kept until it is deleted. Remove the finalizer to complete the deletion."
            )
        } else {
            format!(
                "{kind} {name} is left behind: the finalizer {finalizers} blocks its deletion. Remove the finalizer to \
                 complete the deletion."
            )
        }
    })
    .collect()
}
