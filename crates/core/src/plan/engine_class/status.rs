//! The next status, which is written once per reconcile, and the events about its changes.

use firebolt_api::FireboltEngineClassStatus;
use firebolt_api::condition::{Condition, EngineClassCondition, EngineClassReason};
use firebolt_api::key::Finalizer;

use super::input::Input;
use super::kstatus;
use super::output::{ClassWrite, Plan};
use crate::admit;
use crate::names;
use crate::plan::PlannedEvent;
use crate::plan::condition::{self, ConditionUpdate};

/// Number of finalizers that a message names.
const MOST_FINALIZERS: usize = 3;

/// The next value of the `Ready` condition.
pub(super) struct ClassReadiness {
    reason: EngineClassReason,
    message: String,
}

/// Whether engines can use the class.
pub(super) fn validate(input: &Input) -> ClassReadiness {
    let violations = admit::engine_class(input.class);
    if violations.is_empty() {
        return ClassReadiness {
            reason: EngineClassReason::Admissible,
            message: "Engines can use this class.".to_owned(),
        };
    }
    ClassReadiness {
        reason: EngineClassReason::OperatorOwnedFieldSet,
        message: admit::summary(&violations),
    }
}

/// What blocks the deletion of a class, if anything does.
pub(super) fn blocked(input: &Input) -> Option<ClassReadiness> {
    let metadata = &input.class.metadata;
    let (name, namespace) = (metadata.name.as_deref(), metadata.namespace.as_deref());
    let (bound, unreadable) = (&input.observed.bound, &input.observed.unreadable);
    let referring = (!bound.is_empty()).then(|| {
        format!(
            "It is referenced by {}. Change or remove spec.engineClassRef in these engines, or delete them.",
            names::engines(bound)
        )
    });
    let unknown = (!unreadable.is_empty()).then(|| {
        format!(
            "It may be referenced by {}, which cannot be parsed. Correct such engines with `kubectl edit`, or delete \
             them.",
            names::engines(unreadable)
        )
    });
    let reasons: Vec<String> = referring.into_iter().chain(unknown).collect();
    (!reasons.is_empty()).then(|| ClassReadiness {
        reason: EngineClassReason::DeletionBlocked,
        message: format!(
            "Class {} in namespace {} cannot be deleted while engines reference it. {} The deletion then continues \
             automatically.",
            name.unwrap_or_default(),
            namespace.unwrap_or_default(),
            reasons.join(" ")
        ),
    })
}

/// The condition of a class that no engine references and whose deletion is blocked by finalizers of other controllers.
pub(super) fn held_by_others(input: &Input) -> Option<ClassReadiness> {
    let finalizers = input.class.metadata.finalizers.iter().flatten();
    // Finalizers of Kubernetes itself have no domain, and Kubernetes removes them.
    let foreign = finalizers.filter(|name| name.contains('/') && *name != Finalizer::EngineClass.key());
    let foreign: Vec<&str> = foreign.map(String::as_str).take(MOST_FINALIZERS).collect();
    (!foreign.is_empty()).then(|| ClassReadiness {
        reason: EngineClassReason::DeletionBlocked,
        message: format!(
            "No engine references the class, but the finalizer {} of another controller blocks its deletion. Remove \
             the finalizer to complete the deletion.",
            foreign.join(", ")
        ),
    })
}

/// The plan that reports this condition.
pub(super) fn conclude(input: &Input, write: Option<ClassWrite>, readiness: ClassReadiness) -> Plan {
    let before = input.class.status.clone().unwrap_or_default();
    let generation = input.class.metadata.generation;
    let was = ready(&before).map(|ready| ready.status.clone());
    let mut status = FireboltEngineClassStatus {
        observed_generation: generation,
        bound_engines: i32::try_from(input.observed.bound.len()).unwrap_or(i32::MAX),
        conditions: before.conditions,
    };
    let update = ConditionUpdate {
        type_: EngineClassCondition::Ready.into(),
        holds: holds(readiness.reason),
        reason: readiness.reason.into(),
        message: readiness.message.clone(),
    };
    let changed_ready = condition::set(&mut status.conditions, update, generation, input.observed.at);
    kstatus::report(&mut status, readiness.reason, input.observed.at);
    let changed = input.class.status.as_ref() != Some(&status);
    Plan {
        writes: write.into_iter().collect(),
        status: changed.then_some(status),
        events: event(readiness, was.as_deref())
            .filter(|_| changed_ready)
            .into_iter()
            .collect(),
        requeue_after: None,
        throttle: None,
    }
}

/// A problem that a person has to solve, or the end of one. A class that is fine from the start needs no event.
fn event(readiness: ClassReadiness, was: Option<&str>) -> Option<PlannedEvent> {
    let reason: &str = readiness.reason.into();
    if !holds(readiness.reason) {
        return Some(PlannedEvent::warning(reason, readiness.message));
    }
    (was == Some("False")).then(|| PlannedEvent::normal(reason, readiness.message))
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
