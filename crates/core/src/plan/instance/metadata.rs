//! The metadata service.

use firebolt_api::condition::{InstanceCondition, InstanceReason};

use super::component::{ComponentPlan, ComponentReadiness, ensure};
use super::input::{Credentials, Input};
use super::object::{Component, InstanceObject};
use super::output::InstanceWrite;
use super::workload::Workload;

const OBJECTS: [InstanceObject; 3] = [
    InstanceObject::MetadataConfig,
    InstanceObject::MetadataDeployment,
    InstanceObject::MetadataService,
];

/// Provisions the metadata service once the credentials of its database are known.
pub(super) fn plan(input: &Input, postgres: &ComponentPlan) -> ComponentPlan {
    if let Some(message) = input.desired.rejected.get(&Component::Metadata) {
        return ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::TemplateRejected,
            message.clone(),
        ));
    }
    let exists = input.observed.objects.contains_key(&InstanceObject::MetadataDeployment);
    match &input.observed.credentials {
        // Nothing can be rendered, but a running service is no less ready for that.
        Credentials::Unknown | Credentials::Unreadable(_) if exists => {
            return writing(input, postgres, Vec::new());
        }
        Credentials::Unknown
        | Credentials::Unreadable(_)
        | Credentials::Missing
        | Credentials::Unusable(_)
        | Credentials::Usable => {}
    }
    match postgres.readiness.reason {
        // It continues to use its current database.
        InstanceReason::PostgresSwitchRefused => {
            return writing(input, postgres, Vec::new());
        }
        InstanceReason::Ready | InstanceReason::Provisioning => {}
        InstanceReason::AllComponentsReady
        | InstanceReason::Initializing
        | InstanceReason::TemplateRejected
        | InstanceReason::PostgresEnsureFailed
        | InstanceReason::PostgresSecretPreflightFailed
        | InstanceReason::PostgresCredentialsLost
        | InstanceReason::EnsureFailed
        | InstanceReason::ProbeFailed
        | InstanceReason::ForeignObject
        | InstanceReason::ExternalFinalizer
        | InstanceReason::Deleting
        | InstanceReason::DeletionBlocked
        | InstanceReason::OperatorUpgraded => return ComponentPlan::blocked(postgres.readiness.clone()),
    }
    // The pods are restarted when the credentials change, so these must be known first.
    if input.observed.credentials != Credentials::Usable {
        return ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::Provisioning,
            postgres.readiness.message.clone(),
        ));
    }
    if let Some(refusal) = input.limits.rejected.get(&Component::Metadata) {
        let message = format!("Failed to create or update the metadata service: {refusal}");
        return ComponentPlan::blocked(ComponentReadiness::not_ready(InstanceReason::EnsureFailed, message));
    }
    match ensure(input, &OBJECTS) {
        Ok(writes) => writing(input, postgres, writes),
        Err(foreign) => ComponentPlan::blocked(foreign),
    }
}

fn writing(input: &Input, postgres: &ComponentPlan, writes: Vec<InstanceWrite>) -> ComponentPlan {
    ComponentPlan {
        writes,
        readiness: readiness(input, postgres),
        requeue_after: None,
    }
}

fn readiness(input: &Input, postgres: &ComponentPlan) -> ComponentReadiness {
    let Some(workload) = input.observed.workloads.get(&Component::Metadata) else {
        return ComponentReadiness::not_ready(
            InstanceReason::Provisioning,
            "The metadata service is being created.".to_owned(),
        );
    };
    if workload.serves(Component::Metadata) || still_serves(input, workload) {
        let doubt = match &input.observed.credentials {
            Credentials::Unreadable(_) => format!(" {}", postgres.readiness.message),
            Credentials::Unknown | Credentials::Missing | Credentials::Unusable(_) | Credentials::Usable => {
                String::new()
            }
        };
        return ComponentReadiness::ready(format!("The metadata service is ready.{doubt}"));
    }
    let mut message = format!("The metadata service is not ready: {}", workload.describe());
    // The most likely cause, which is not reported anywhere else.
    if !postgres.readiness.ready {
        message = format!("{message} {}", postgres.readiness.message);
    }
    ComponentReadiness::not_ready(InstanceReason::Provisioning, message)
}

/// The counts are about an older spec, or about the same one after a change of another field. The last condition is
/// kept until Kubernetes has observed the newest spec.
fn still_serves(input: &Input, workload: &Workload) -> bool {
    !workload.observed && workload.ready > 0 && input.is_true(InstanceCondition::MetadataReady)
}
