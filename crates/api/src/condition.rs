//! Condition types and reasons, each defined once.
//!
//! Reasons are read by programs and never change. Messages are read by people and may change.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use strum::{Display, EnumIter, EnumString, IntoStaticStr};

/// Whether the condition of this type is True.
#[must_use]
pub fn is_true<'a>(conditions: impl IntoIterator<Item = &'a Condition>, condition: impl Into<&'static str>) -> bool {
    let type_ = condition.into();
    let mut conditions = conditions.into_iter();
    conditions.any(|known| known.type_ == type_ && known.status == "True")
}

/// Conditions of a FireboltEngine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineCondition {
    /// The engine serves queries on its active generation.
    Ready,
    /// The engine can use its instance.
    InstanceReady,
    /// Another version of the operator rendered the newest generation, and this one renders it differently. Present only
    /// while that is so.
    RenderingOutdated,
    /// Objects that are not needed any more cannot be deleted. Present only while that is so.
    CleanupBlocked,
    /// Work is in progress that completes on its own. Absent otherwise.
    Reconciling,
    /// Nothing progresses until a person acts. Absent otherwise.
    Stalled,
}

/// Reasons of the conditions of a FireboltEngine.
///
/// A `Ready` condition may also have the reason of a Warning event of the StatefulSet, such as `FailedCreate`, which is
/// defined by Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, EnumString, IntoStaticStr)]
pub enum EngineReason {
    /// `Ready`: the engine has not been reconciled before.
    Initializing,
    /// `Ready`, `InstanceReady`: the instance is missing or not ready, so the engine cannot work.
    InstanceNotReady,
    /// `InstanceReady`: the engine can use its instance.
    InstanceReady,
    /// `Ready`: the engine is stopped, with zero replicas.
    Stopped,
    /// `Ready`: a rollout is in progress.
    Rolling,
    /// `Ready`: some pods of the active generation are not ready.
    PodsNotReady,
    /// `Ready`: the engine serves queries.
    EngineReady,
    /// `Ready`: the running queries of the old generation cannot be read.
    DrainCheckFailing,
    /// `Ready`: the pod template sets fields that the operator manages.
    TemplateRejected,
    /// `Ready`: the engine class is missing or its template is rejected.
    FireboltEngineClassUnready,
    /// `Ready`: the engine container requests more resources than the operator allows.
    ResourceBoundsExceeded,
    /// `Ready`: the new generation did not become ready in time.
    ProgressDeadlineExceeded,
    /// `Ready`: a finalizer of another controller blocks the deletion of an object.
    ExternalFinalizer,
    /// `Ready`: an object that the engine does not own has the name of the routing Service.
    ForeignObject,
    /// `Ready`: the API server rejects an object of the engine.
    WriteRefused,
    /// `RenderingOutdated`: the operator was upgraded, or its default settings were changed.
    OperatorUpgraded,
    /// `CleanupBlocked`, `Ready` of an engine that is being deleted: the API server rejects the deletion of an object.
    DeleteRefused,
    /// `CleanupBlocked`: an object has been marked for deletion for long and still exists.
    DeletionStuck,
    /// `Ready`: a Warning event of the StatefulSet whose reason is not a valid condition reason.
    StatefulSetWarning,
}

/// Conditions of a FireboltInstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum InstanceCondition {
    /// The metadata service and the gateway are ready.
    Ready,
    /// The metadata service is ready.
    MetadataReady,
    /// The gateway is ready.
    GatewayReady,
    /// Another version of the operator rendered the pods of a component, and this one renders them differently. Present
    /// only while that is so.
    RenderingOutdated,
    /// Work is in progress that completes on its own. Absent otherwise.
    Reconciling,
    /// Nothing progresses until a person acts. Absent otherwise.
    Stalled,
}

/// Reasons of the conditions of a FireboltInstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum InstanceReason {
    /// `MetadataReady`, `GatewayReady`: the component is ready.
    Ready,
    /// `Ready`: every component is ready.
    AllComponentsReady,
    /// `Ready`: the status of a component is not known yet.
    Initializing,
    /// The component is being created or updated.
    Provisioning,
    /// The pod template sets fields that the operator manages.
    TemplateRejected,
    /// PostgreSQL could not be created or updated.
    PostgresEnsureFailed,
    /// The Secret with the credentials of PostgreSQL is missing or incomplete.
    PostgresSecretPreflightFailed,
    /// The objects of the component could not be written.
    EnsureFailed,
    /// The state of the component could not be read.
    ProbeFailed,
    /// The credentials of a PostgreSQL server are missing while its data exists.
    PostgresCredentialsLost,
    /// `Ready`: the database cannot be changed while engines depend on it.
    PostgresSwitchRefused,
    /// An object that the instance does not own has the name of one of its objects.
    ForeignObject,
    /// The instance is being deleted.
    Deleting,
    /// A finalizer of another controller blocks the deletion of an object.
    ExternalFinalizer,
    /// Engines still reference an instance that is being deleted.
    DeletionBlocked,
    /// `RenderingOutdated`: the operator was upgraded, or its default settings were changed.
    OperatorUpgraded,
}

/// Conditions of a FireboltEngineClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineClassCondition {
    /// The class can be used by engines.
    Ready,
    /// Work is in progress that completes on its own. Absent otherwise.
    Reconciling,
    /// Nothing progresses until a person acts. Absent otherwise.
    Stalled,
}

/// Reasons of the conditions of a FireboltEngineClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineClassReason {
    /// `Ready`: the template sets only fields that a class may set.
    Admissible,
    /// `Ready`: the template sets fields that the operator manages.
    OperatorOwnedFieldSet,
    /// `Ready`: engines still reference a class that is being deleted, or a finalizer of another controller blocks its
    /// deletion.
    DeletionBlocked,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn every_reason_is_a_valid_condition_reason() {
        let reasons = EngineReason::iter()
            .map(<&str>::from)
            .chain(InstanceReason::iter().map(<&str>::from))
            .chain(EngineClassReason::iter().map(<&str>::from));
        for reason in reasons {
            let legal = reason.len() <= 1024 && reason.chars().all(|c| c.is_ascii_alphanumeric());
            assert!(
                legal && reason.starts_with(|c: char| c.is_ascii_alphabetic()),
                "{reason}"
            );
        }
    }
}
