//! Condition types and reasons, each spelled once.
//!
//! Reasons are for programs, so they never change; messages are for people and may.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use strum::{Display, EnumIter, IntoStaticStr};

/// Conditions of a FireboltEngine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineCondition {
    /// The engine serves queries on its active generation.
    Ready,
    /// The instance that the engine belongs to can be used.
    InstanceReady,
}

/// Reasons of the conditions of a FireboltEngine.
///
/// A `Ready` condition may also carry the reason of a Warning event of the StatefulSet, such as `FailedCreate`, which
/// Kubernetes defines and not we.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineReason {
    /// `Ready`: the engine was just seen for the first time.
    Initializing,
    /// `Ready`, `InstanceReady`: the instance is missing or not ready; nothing downstream can work.
    InstanceNotReady,
    /// `InstanceReady`: the instance can be used.
    InstanceReady,
    /// `Ready`: the engine is parked at zero replicas.
    Stopped,
    /// `Ready`: a rollout is under way.
    Rolling,
    /// `Ready`: some pods of the active generation are not ready.
    PodsNotReady,
    /// `Ready`: the engine serves.
    EngineReady,
    /// `Ready`: the running queries of the old generation cannot be read.
    DrainCheckFailing,
    /// `Ready`: the pod template sets what belongs to the operator.
    TemplateRejected,
    /// `Ready`: the engine class is missing or itself rejected.
    FireboltEngineClassUnready,
    /// `Ready`: the engine container asks for more than this cluster's operator allows.
    ResourceBoundsExceeded,
    /// `Ready`: the new generation did not become ready in time.
    ProgressDeadlineExceeded,
    /// `Ready`: a finalizer of somebody else holds an object that is being deleted.
    ExternalFinalizer,
    /// `Ready`: an object of somebody else has the name of the routing Service.
    ForeignObject,
    /// `Ready`: the API server refuses an object of the engine.
    WriteRefused,
    /// `Ready`: a Warning event of the StatefulSet whose own reason is not a legal condition reason.
    StatefulSetWarning,
}

/// Conditions of a FireboltInstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum InstanceCondition {
    /// Metadata service and gateway are both ready.
    Ready,
    /// The metadata service answers.
    MetadataReady,
    /// The gateway answers.
    GatewayReady,
}

/// Reasons of the conditions of a FireboltInstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum InstanceReason {
    /// `MetadataReady`, `GatewayReady`: the component is ready.
    Ready,
    /// `Ready`: every component is ready.
    AllComponentsReady,
    /// `Ready`: a component has not reported yet.
    Initializing,
    /// The component is being created or rolled.
    Provisioning,
    /// The pod template sets what belongs to the operator.
    TemplateRejected,
    /// PostgreSQL could not be created or updated.
    PostgresEnsureFailed,
    /// The Secret with the credentials of PostgreSQL is missing or incomplete.
    PostgresSecretPreflightFailed,
    /// The objects of the component could not be written.
    EnsureFailed,
    /// The state of the component could not be read.
    ProbeFailed,
    /// The credentials of a PostgreSQL server whose data exists are gone.
    PostgresCredentialsLost,
    /// `Ready`: the database may not be changed while engines depend on it.
    PostgresSwitchRefused,
    /// An object of somebody else has the name of one of ours.
    ForeignObject,
    /// The instance is being deleted.
    Deleting,
    /// A finalizer of somebody else holds an object that is being deleted.
    ExternalFinalizer,
    /// Engines still refer to an instance that is being deleted.
    DeletionBlocked,
}

/// Conditions of a FireboltEngineClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineClassCondition {
    /// Engines can use the class.
    Ready,
}

/// Reasons of the conditions of a FireboltEngineClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumIter, IntoStaticStr)]
pub enum EngineClassReason {
    /// `Ready`: the template sets only what a class may set.
    Admissible,
    /// `Ready`: the template sets what belongs to the operator.
    OperatorOwnedFieldSet,
    /// `Ready`: engines still refer to a class that is being deleted, or somebody else holds it.
    DeletionBlocked,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn every_reason_is_a_legal_condition_reason() {
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
