//! The metadata service.

use firebolt_api::condition::{InstanceCondition, InstanceReason};

use super::input::{Credentials, Input};
use super::output::{Component, Object};
use super::step::{Step, Verdict, ensure};
use super::workload::Workload;

const OBJECTS: [Object; 3] = [
    Object::MetadataConfig,
    Object::MetadataDeployment,
    Object::MetadataService,
];

/// Sets the metadata service up, once it is known how it gets to its database.
pub(super) fn step(input: &Input, postgres: &Step) -> Step {
    if let Some(message) = input.wanted.rejected.get(&Component::Metadata) {
        return Step::held_up(Verdict::not_ready(InstanceReason::TemplateRejected, message.clone()));
    }
    let exists = input.observed.objects.contains_key(&Object::MetadataDeployment);
    match &input.observed.credentials {
        // Nothing can be rendered; but a service that runs is not less ready for that.
        Credentials::Unknown | Credentials::Unreadable(_) if exists => {
            return Step {
                writes: Vec::new(),
                verdict: verdict(input, postgres),
                look_again: None,
            };
        }
        Credentials::Unknown
        | Credentials::Unreadable(_)
        | Credentials::Missing
        | Credentials::Unusable(_)
        | Credentials::Usable => {}
    }
    match postgres.verdict.reason {
        // It goes on with the database that it has.
        InstanceReason::PostgresSwitchRefused => {
            return Step {
                writes: Vec::new(),
                verdict: verdict(input, postgres),
                look_again: None,
            };
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
        | InstanceReason::DeletionBlocked => return Step::held_up(postgres.verdict.clone()),
    }
    // The pods are to start anew when the credentials change, so these must be known first.
    if input.observed.credentials != Credentials::Usable {
        return Step::held_up(Verdict::not_ready(
            InstanceReason::Provisioning,
            postgres.verdict.message.clone(),
        ));
    }
    if let Some(refusal) = input.observed.refused.get(&Component::Metadata) {
        let message = format!("The metadata service cannot be set up: {refusal}");
        return Step::held_up(Verdict::not_ready(InstanceReason::EnsureFailed, message));
    }
    match ensure(input, &OBJECTS) {
        Ok(writes) => Step {
            writes,
            verdict: verdict(input, postgres),
            look_again: None,
        },
        Err(foreign) => Step::held_up(foreign),
    }
}

fn verdict(input: &Input, postgres: &Step) -> Verdict {
    let Some(workload) = input.observed.workloads.get(&Component::Metadata) else {
        return Verdict::not_ready(
            InstanceReason::Provisioning,
            "The metadata service is being created.".to_owned(),
        );
    };
    if workload.serves(Component::Metadata) || still_serves(input, workload) {
        let doubt = match &input.observed.credentials {
            Credentials::Unreadable(_) => format!(" {}", postgres.verdict.message),
            Credentials::Unknown | Credentials::Missing | Credentials::Unusable(_) | Credentials::Usable => {
                String::new()
            }
        };
        return Verdict::ready(format!("The metadata service answers.{doubt}"));
    }
    let mut message = format!("The metadata service is not ready: {}", workload.describe());
    // The likeliest cause, and nothing else tells of it.
    if !postgres.verdict.ready {
        message = format!("{message} {}", postgres.verdict.message);
    }
    Verdict::not_ready(InstanceReason::Provisioning, message)
}

/// The counts are about an older specification, or about the same one beside which somebody changed something. What was
/// said last holds until Kubernetes has looked.
fn still_serves(input: &Input, workload: &Workload) -> bool {
    !workload.observed && workload.ready > 0 && input.said(InstanceCondition::MetadataReady)
}
