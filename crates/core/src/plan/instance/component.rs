//! The plan of one component, and its condition.

use std::time::Duration;

use firebolt_api::condition::{InstanceCondition, InstanceReason, is_true};

use super::input::Input;
use super::object::InstanceObject;
use super::output::InstanceWrite;

/// How soon to check again whether a blocked component can continue. Objects without the labels of the operator are not
/// watched.
pub(super) const BLOCKED_RECHECK: Duration = Duration::from_secs(10);

/// The plan of one component.
pub(super) struct ComponentPlan {
    pub writes: Vec<InstanceWrite>,
    pub readiness: ComponentReadiness,
    pub requeue_after: Option<Duration>,
}

/// The next condition of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentReadiness {
    pub ready: bool,
    pub reason: InstanceReason,
    pub message: String,
}

impl ComponentReadiness {
    pub(super) fn ready(message: String) -> Self {
        Self {
            ready: true,
            reason: InstanceReason::Ready,
            message,
        }
    }

    pub(super) fn not_ready(reason: InstanceReason, message: String) -> Self {
        Self {
            ready: false,
            reason,
            message,
        }
    }

    /// Whether a person has to act.
    pub(super) fn is_actionable(&self) -> bool {
        match self.reason {
            InstanceReason::TemplateRejected
            | InstanceReason::PostgresEnsureFailed
            | InstanceReason::PostgresSecretPreflightFailed
            | InstanceReason::PostgresCredentialsLost
            | InstanceReason::PostgresSwitchRefused
            | InstanceReason::EnsureFailed
            | InstanceReason::ProbeFailed
            | InstanceReason::ForeignObject
            | InstanceReason::ExternalFinalizer
            | InstanceReason::DeletionBlocked => true,
            InstanceReason::Ready
            | InstanceReason::AllComponentsReady
            | InstanceReason::Initializing
            | InstanceReason::Provisioning
            | InstanceReason::Deleting
            | InstanceReason::OperatorUpgraded => false,
        }
    }

    /// Whether a retry cannot help until a person acts.
    pub(super) fn is_failure(&self) -> bool {
        matches!(
            self.reason,
            InstanceReason::PostgresCredentialsLost | InstanceReason::ForeignObject
        )
    }
}

impl ComponentPlan {
    /// Nothing is written, for this reason.
    pub(super) fn blocked(readiness: ComponentReadiness) -> Self {
        let unseen = readiness.is_failure() || readiness.reason == InstanceReason::PostgresSwitchRefused;
        let requeue_after = unseen.then_some(BLOCKED_RECHECK);
        Self {
            writes: Vec::new(),
            readiness,
            requeue_after,
        }
    }
}

/// The writes for these objects: missing ones are created, changed ones are applied again. An object with one of the
/// names that the instance does not own stops all of them.
pub(super) fn ensure(input: &Input, objects: &[InstanceObject]) -> Result<Vec<InstanceWrite>, ComponentReadiness> {
    let mut writes = Vec::new();
    for &object in objects {
        match input.observed.objects.get(&object) {
            None => writes.push(InstanceWrite::Create(object)),
            Some(child) if !child.meta.owned => return Err(taken(input, object, &child.meta.uid)),
            // It has to be gone before it can be created again.
            Some(child) if child.meta.terminating => {}
            Some(child) if child.intact => {}
            Some(_) => writes.push(InstanceWrite::Apply(object)),
        }
    }
    Ok(writes)
}

/// The condition if an object that the instance does not own has the name of one of these.
pub(super) fn foreign(input: &Input, objects: &[InstanceObject]) -> Option<ComponentReadiness> {
    objects.iter().find_map(|object| {
        let child = input.observed.objects.get(object).filter(|child| !child.meta.owned)?;
        Some(taken(input, *object, &child.meta.uid))
    })
}

fn taken(input: &Input, object: InstanceObject, uid: &str) -> ComponentReadiness {
    let (kind, name) = (object.kind(), object.name(input.name()));
    let message = format!(
        "{kind} {name} (uid {uid}) is not owned by the instance, and the operator does not modify it. Delete it, or \
         recreate it under another name; the operator then continues automatically."
    );
    ComponentReadiness::not_ready(InstanceReason::ForeignObject, message)
}

/// Deletes objects that the instance owns and no longer needs.
pub(super) fn remove(input: &Input, objects: &[InstanceObject]) -> Vec<InstanceWrite> {
    let seen = objects
        .iter()
        .filter_map(|object| Some((object, input.observed.objects.get(object)?)));
    let ours = seen.filter(|(_, child)| child.meta.owned && !child.meta.terminating);
    ours.map(|(object, child)| InstanceWrite::Delete {
        kind: object.kind(),
        name: object.name(input.name()),
        uid: child.meta.uid.clone(),
    })
    .collect()
}

impl Input<'_> {
    pub(super) fn name(&self) -> &str {
        self.instance.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether the condition is true in the current status.
    pub(super) fn is_true(&self, condition: InstanceCondition) -> bool {
        let conditions = self.instance.status.iter().flat_map(|status| &status.conditions);
        is_true(conditions, condition)
    }
}
