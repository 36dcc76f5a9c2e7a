//! The next status, the one write of it per pass, and what its changes tell people.

use firebolt_api::FireboltEngineClassStatus;
use firebolt_api::condition::{Condition, EngineClassCondition, EngineClassReason};
use firebolt_api::key::Finalizer;

use super::input::Input;
use super::output::{Plan, Write};
use crate::admit;
use crate::plan::condition::{self, Said};
use crate::plan::{Event, names};

/// How many finalizers are named.
const MOST_FINALIZERS: usize = 3;

/// What is to be said of a class.
pub(super) struct Verdict {
    reason: EngineClassReason,
    message: String,
}

/// Whether engines can use the class.
pub(super) fn judge(input: &Input) -> Verdict {
    let violations = admit::engine_class(input.class);
    if violations.is_empty() {
        return Verdict {
            reason: EngineClassReason::Admissible,
            message: "Engines can use this class.".to_owned(),
        };
    }
    Verdict {
        reason: EngineClassReason::OperatorOwnedFieldSet,
        message: admit::summary(&violations),
    }
}

/// What keeps a class that is to be deleted, if anything does.
pub(super) fn blocked(input: &Input) -> Option<Verdict> {
    let metadata = &input.class.metadata;
    let (name, namespace) = (metadata.name.as_deref(), metadata.namespace.as_deref());
    let (bound, unreadable) = (&input.observed.bound, &input.observed.unreadable);
    let referring = (!bound.is_empty()).then(|| {
        format!(
            "{} {} to it. Clear or change spec.engineClassRef there, or delete what refers to it.",
            names::engines(bound),
            if bound.len() == 1 { "refers" } else { "refer" }
        )
    });
    let unknown = (!unreadable.is_empty()).then(|| {
        format!(
            "{} cannot be read and may refer to it. Correct it with `kubectl edit`, or delete it.",
            names::engines(unreadable)
        )
    });
    let reasons: Vec<String> = referring.into_iter().chain(unknown).collect();
    (!reasons.is_empty()).then(|| Verdict {
        reason: EngineClassReason::DeletionBlocked,
        message: format!(
            "Class {} in namespace {} is being deleted, but {} The deletion goes on by itself.",
            name.unwrap_or_default(),
            namespace.unwrap_or_default(),
            reasons.join(" Also, ")
        ),
    })
}

/// What is to be said of a class that no engine refers to and that others hold all the same, if they do.
pub(super) fn held_by_others(input: &Input) -> Option<Verdict> {
    let finalizers = input.class.metadata.finalizers.iter().flatten();
    // Those of Kubernetes itself have no domain, and go by themselves.
    let foreign = finalizers.filter(|name| name.contains('/') && *name != Finalizer::EngineClass.key());
    let foreign: Vec<&str> = foreign.map(String::as_str).take(MOST_FINALIZERS).collect();
    (!foreign.is_empty()).then(|| Verdict {
        reason: EngineClassReason::DeletionBlocked,
        message: format!(
            "The class is being deleted and no engine refers to it, but the finalizer {} of somebody else holds it. Remove \
             that finalizer to let it go.",
            foreign.join(", ")
        ),
    })
}

/// The end of a pass that says this.
pub(super) fn conclude(input: &Input, write: Option<Write>, verdict: Verdict) -> Plan {
    let before = input.class.status.clone().unwrap_or_default();
    let generation = input.class.metadata.generation;
    let was = ready(&before).map(|ready| ready.status.clone());
    let mut status = FireboltEngineClassStatus {
        observed_generation: generation,
        bound_engines: i32::try_from(input.observed.bound.len()).unwrap_or(i32::MAX),
        conditions: before.conditions,
    };
    let said = Said {
        type_: EngineClassCondition::Ready.into(),
        holds: holds(verdict.reason),
        reason: verdict.reason.into(),
        message: verdict.message.clone(),
    };
    let news = condition::set(&mut status.conditions, said, generation, input.now);
    let changed = input.class.status.as_ref() != Some(&status);
    Plan {
        writes: write.into_iter().collect(),
        status: changed.then_some(status),
        events: event(verdict, was.as_deref()).filter(|_| news).into_iter().collect(),
        look_again: None,
    }
}

/// What a person must act on, or need not any more. That all is well from the beginning is nothing to tell.
fn event(verdict: Verdict, was: Option<&str>) -> Option<Event> {
    let reason: &str = verdict.reason.into();
    if !holds(verdict.reason) {
        return Some(Event::warning(reason, verdict.message));
    }
    (was == Some("False")).then(|| Event::normal(reason, verdict.message))
}

fn holds(reason: EngineClassReason) -> bool {
    match reason {
        EngineClassReason::Admissible => true,
        EngineClassReason::OperatorOwnedFieldSet | EngineClassReason::DeletionBlocked => false,
    }
}

fn ready(status: &FireboltEngineClassStatus) -> Option<&Condition> {
    let type_: &str = EngineClassCondition::Ready.into();
    status.conditions.iter().find(|known| known.type_ == type_)
}
