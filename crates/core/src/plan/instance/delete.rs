//! The end of an instance: the gateway first, then the metadata service, then PostgreSQL, its data and its password.

use std::time::Duration;

use firebolt_api::condition::InstanceReason;
use firebolt_api::key::Finalizer;
use strum::IntoEnumIterator;

use super::input::{Input, Leftover};
use super::output::{Component, Plan, Write};
use super::postgres::list;
use super::status::{self, Verdicts};
use super::step::Verdict;
use super::{has_finalizer, steps};
use crate::plan::Event;

/// How long the clean-up waits before it looks again at what is still going. Claims are not watched.
const GOING: Duration = Duration::from_secs(5);
/// With this finalizer on the instance, Kubernetes deletes what the instance owns by itself.
const FOREGROUND: &str = "foregroundDeletion";

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
    if !input.observed.engines.is_empty() {
        return blocked(input);
    }
    let held = held_by_others(input);
    let events: Vec<Event> = held
        .iter()
        .map(|held| Event::warning("ExternalFinalizerOnOwnedResource", held))
        .collect();
    let stage = stages()
        .map(|(component, last)| (component, of_stage(input, component, last)))
        .find(|(_, leftovers)| leftovers.iter().any(|leftover| is_awaited(leftover)));
    let verdict = match &stage {
        _ if !held.is_empty() => Verdict::not_ready(InstanceReason::ExternalFinalizer, held.join("\n")),
        Some((component, _)) => deleting(format!("{component} is being removed.")),
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
        list(&input.observed.engines)
    );
    let verdict = Verdict::not_ready(InstanceReason::DeletionBlocked, message);
    if has_finalizer(input, FOREGROUND) {
        // Kubernetes takes everything away at this moment; putting it back would go on for ever.
        return status::only(input, &all(&verdict), None);
    }
    status::conclude(input, steps(input), Some(verdict))
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

/// Components in reverse; of each, what its pods need to the end goes last.
fn stages() -> impl Iterator<Item = (Component, bool)> {
    Component::iter()
        .rev()
        .flat_map(|component| [(component, false), (component, true)])
}

fn of_stage<'a>(input: &Input<'a>, component: Component, last: bool) -> Vec<&'a Leftover> {
    let leftovers = input.observed.leftovers.iter();
    leftovers
        .filter(|leftover| leftover.meta.owned && leftover.component == component && leftover.last == last)
        .collect()
}

/// It is still to be deleted, or on its way and nobody else holds it.
fn is_awaited(leftover: &Leftover) -> bool {
    !leftover.meta.terminating || leftover.meta.foreign_finalizers.is_empty()
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
    owned
        .filter(|leftover| !is_awaited(leftover))
        .map(|Leftover { kind, name, meta, .. }| {
            let finalizers = meta.foreign_finalizers.join(", ");
            format!(
                "{kind} {name} stays behind: the finalizer {finalizers} holds it. Remove that finalizer to free it."
            )
        })
        .collect()
}
