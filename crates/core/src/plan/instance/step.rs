//! What is done for one component, and what is to be said about it.

use std::time::Duration;

use firebolt_api::condition::{InstanceCondition, InstanceReason};

use super::input::Input;
use super::output::{Object, Write};

/// How often it is looked whether what stands in the way of a component is gone. Nothing tells when it goes: what is not
/// labelled as ours is not watched.
pub(super) const STILL_IN_THE_WAY: Duration = Duration::from_secs(10);

/// What is done for one component.
pub(super) struct Step {
    pub writes: Vec<Write>,
    pub verdict: Verdict,
    pub look_again: Option<Duration>,
}

/// What is to be said about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub ready: bool,
    pub reason: InstanceReason,
    pub message: String,
}

impl Verdict {
    pub fn ready(message: String) -> Self {
        Self {
            ready: true,
            reason: InstanceReason::Ready,
            message,
        }
    }

    pub fn not_ready(reason: InstanceReason, message: String) -> Self {
        Self {
            ready: false,
            reason,
            message,
        }
    }

    /// Whether it is up to a person: what is merely under way is not.
    pub fn is_actionable(&self) -> bool {
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
            | InstanceReason::Deleting => false,
        }
    }

    /// Whether trying again cannot help as long as nobody does anything.
    pub fn is_failure(&self) -> bool {
        matches!(
            self.reason,
            InstanceReason::PostgresCredentialsLost | InstanceReason::ForeignObject
        )
    }
}

impl Step {
    /// Nothing is done, for this reason.
    pub fn held_up(verdict: Verdict) -> Self {
        let unseen = verdict.is_failure() || verdict.reason == InstanceReason::PostgresSwitchRefused;
        let look_again = unseen.then_some(STILL_IN_THE_WAY);
        Self {
            writes: Vec::new(),
            verdict,
            look_again,
        }
    }
}

/// The writes that bring these objects about: what is missing is created, what was changed is applied again. An object of
/// somebody else under one of the names stops it all.
pub(super) fn ensure(input: &Input, objects: &[Object]) -> Result<Vec<Write>, Verdict> {
    let mut writes = Vec::new();
    for &object in objects {
        match input.observed.objects.get(&object) {
            None => writes.push(Write::Create(object)),
            Some(child) if !child.meta.owned => return Err(taken(input, object, &child.meta.uid)),
            // It has to be gone before there can be another.
            Some(child) if child.meta.terminating => {}
            Some(child) if child.intact => {}
            Some(_) => writes.push(Write::Apply(object)),
        }
    }
    Ok(writes)
}

/// What is to be said if an object of somebody else has the name of one of these.
pub(super) fn foreign(input: &Input, objects: &[Object]) -> Option<Verdict> {
    objects.iter().find_map(|object| {
        let child = input.observed.objects.get(object).filter(|child| !child.meta.owned)?;
        Some(taken(input, *object, &child.meta.uid))
    })
}

fn taken(input: &Input, object: Object, uid: &str) -> Verdict {
    let (kind, name) = (object.kind(), object.name(input.name()));
    let message = format!(
        "{kind} {name} (uid {uid}) belongs to somebody else, and the operator does not touch it. Delete or rename it; the \
         operator goes on by itself."
    );
    Verdict::not_ready(InstanceReason::ForeignObject, message)
}

/// Deletes objects that are ours and no longer wanted.
pub(super) fn remove(input: &Input, objects: &[Object]) -> Vec<Write> {
    let seen = objects
        .iter()
        .filter_map(|object| Some((object, input.observed.objects.get(object)?)));
    let ours = seen.filter(|(_, child)| child.meta.owned && !child.meta.terminating);
    ours.map(|(object, child)| Write::Delete {
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

    /// Whether the condition was last said to hold.
    pub(super) fn said(&self, condition: InstanceCondition) -> bool {
        let type_: &str = condition.into();
        let mut conditions = self.instance.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|known| known.type_ == type_ && known.status == "True")
    }
}
