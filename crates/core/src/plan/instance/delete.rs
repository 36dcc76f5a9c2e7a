//! The end of an instance: the gateway first, then the metadata service, then PostgreSQL, its data and its password.

use std::time::Duration;

use firebolt_api::condition::InstanceReason;
use firebolt_api::key::Finalizer;
use strum::IntoEnumIterator;

use super::input::{Credentials, Input, Leftover, Order};
use super::output::{Component, Database, Object, Plan, Write};
use super::status::{self, Verdicts};
use super::step::{STILL_IN_THE_WAY, Verdict};
use super::{has_finalizer, steps};
use crate::plan::{Event, names};

/// How long the clean-up waits before it looks again at what is still going. Claims are not watched.
const GOING: Duration = Duration::from_secs(5);
/// With this finalizer on the instance, Kubernetes deletes what the instance owns by itself.
const FOREGROUND: &str = "foregroundDeletion";
/// With this one, whoever deletes the instance wants everything else to stay.
const ORPHAN: &str = "orphan";
/// How many finalizers of one object are named.
const MOST_FINALIZERS: usize = 3;

/// Removes everything that belongs to the instance, unless engines depend on it. Each step is awaited, but an object that
/// somebody else's finalizer holds is reported and left behind.
pub(super) fn plan(input: &Input) -> Plan {
    if !has_finalizer(input, Finalizer::Instance.key()) {
        return Plan {
            writes: Vec::new(),
            status: None,
            events: Vec::new(),
            look_again: None,
        };
    }
    if has_finalizer(input, ORPHAN) {
        return Plan {
            writes: vec![Write::RemoveFinalizer],
            status: None,
            events: Vec::new(),
            look_again: None,
        };
    }
    if !input.observed.engines.is_empty() {
        return blocked(input);
    }
    let held = held_by_others(input);
    let events: Vec<Event> = held
        .iter()
        .map(|held| Event::warning("ExternalFinalizerOnOwnedResource", held))
        .collect();
    let stage = stages()
        .map(|(component, order)| (component, of_stage(input, component, order)))
        .find(|(_, leftovers)| leftovers.iter().any(|leftover| is_awaited(leftover)));
    let verdict = match &stage {
        _ if !held.is_empty() => Verdict::not_ready(InstanceReason::ExternalFinalizer, held.join("\n")),
        Some((component, leftovers)) => deleting(format!("{component} is being removed: {}.", awaited(leftovers))),
        None => deleting("Everything is removed.".to_owned()),
    };
    let mut plan = status::only(input, &all(&verdict), Some(GOING));
    plan.events = events;
    match stage {
        Some((_, leftovers)) => plan.writes = leftovers.into_iter().filter_map(delete).collect(),
        // What is held by others is told first: afterwards there is no object left to tell it on.
        None if !held.is_empty() && plan.status.is_some() => plan.look_again = Some(Duration::ZERO),
        None => {
            plan.writes = vec![Write::RemoveFinalizer];
            plan.status = None;
            plan.look_again = None;
        }
    }
    plan
}

/// Engines depend on it, so it stays, and is looked after as before.
fn blocked(input: &Input) -> Plan {
    let message = format!(
        "The instance is being deleted, but it is still needed by {}. Delete what needs it; the deletion goes on by itself.",
        names::engines(&input.observed.engines)
    );
    let verdict = Verdict::not_ready(InstanceReason::DeletionBlocked, message);
    // Kubernetes takes everything away at this moment, and putting it back would go on for ever; or it was taken away
    // already, and what would be put back is empty.
    if has_finalizer(input, FOREGROUND) || !is_whole(input) {
        return status::only(input, &all(&verdict), Some(STILL_IN_THE_WAY));
    }
    let plan = status::conclude(input, steps(input), Some(verdict));
    Plan {
        look_again: Some(STILL_IN_THE_WAY),
        ..plan
    }
}

/// Nothing of what holds data, or knows the way to it, is gone or going.
fn is_whole(input: &Input) -> bool {
    let stays = |object: &Object| {
        let child = input.observed.objects.get(object);
        child.is_some_and(|child| !child.meta.terminating)
    };
    let set = match input.wanted.database {
        Database::Internal => stays(&Object::PostgresSet),
        Database::External => true,
    };
    set && stays(&Object::MetadataDeployment) && input.observed.credentials != Credentials::Missing
}

fn deleting(message: String) -> Verdict {
    Verdict::not_ready(InstanceReason::Deleting, message)
}

fn all(verdict: &Verdict) -> Verdicts {
    Verdicts {
        ready: verdict.clone(),
        metadata: verdict.clone(),
        gateway: verdict.clone(),
    }
}

/// Components in reverse. Of each, what has pods goes first, then what they needed to the end.
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

/// It is still to be deleted, or on its way and nobody else holds it. Data that somebody else holds is waited for all the
/// same: without its password, which goes next, it would be of no use.
fn is_awaited(leftover: &Leftover) -> bool {
    let data = leftover.order == Order::Data;
    data || !leftover.meta.terminating || leftover.meta.foreign_finalizers.is_empty()
}

fn awaited(leftovers: &[&Leftover]) -> String {
    let names = leftovers.iter().filter(|leftover| is_awaited(leftover));
    let names: Vec<String> = names
        .map(|leftover| format!("{} {}", leftover.kind, leftover.name))
        .collect();
    names.join(", ")
}

fn delete(leftover: &Leftover) -> Option<Write> {
    (!leftover.meta.terminating).then(|| Write::Delete {
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
        if is_awaited(leftover) {
            format!(
                "{kind} {name} is held by the finalizer {finalizers}. Its password and the instance stay until it is \
                 gone. Remove that finalizer to free it."
            )
        } else {
            format!(
                "{kind} {name} stays behind: the finalizer {finalizers} holds it. Remove that finalizer to free it."
            )
        }
    })
    .collect()
}
