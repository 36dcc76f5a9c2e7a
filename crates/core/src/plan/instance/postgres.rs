//! PostgreSQL: run by the operator, or external.

use firebolt_api::condition::InstanceReason;

use super::component::{ComponentPlan, ComponentReadiness, ensure, remove};
use super::input::{Credentials, Input};
use super::object::{Component, InstanceObject};
use super::output::InstanceWrite;
use crate::database;
use crate::database::Database;

/// Provides a database for the metadata service, which does not have to be ready yet: the metadata service retries on
/// its own.
pub(super) fn plan(input: &Input) -> ComponentPlan {
    if let Some(refusal) = switch_refused(input) {
        return ComponentPlan::blocked(refusal);
    }
    match input.desired.database {
        Database::Internal => internal(input),
        Database::External => external(input),
    }
}

/// Another database has other content, so engines would lose their data.
fn switch_refused(input: &Input) -> Option<ComponentReadiness> {
    let used = input.observed.database.filter(|used| *used != input.desired.database)?;
    let engines = &input.observed.engines;
    if engines.is_empty() {
        return None;
    }
    let [why, remedy] = database::change_rejected(used, engines);
    let message = format!("{why} The metadata service keeps running, but its objects are not reconciled. {remedy}");
    Some(ComponentReadiness::not_ready(
        InstanceReason::PostgresSwitchRefused,
        message,
    ))
}

fn internal(input: &Input) -> ComponentPlan {
    let secret = &input.desired.credentials;
    let credentials = match &input.observed.credentials {
        Credentials::Unknown | Credentials::Unreadable(_) => return ComponentPlan::blocked(unread(input)),
        Credentials::Missing if input.observed.claim => return ComponentPlan::blocked(lost(input)),
        Credentials::Missing => Some(InstanceWrite::Create(InstanceObject::PostgresCredentials)),
        Credentials::Unusable(why) => {
            let message = format!(
                "Secret {secret} with the credentials of PostgreSQL is invalid: {why}. Correct it; the operator \
                 does not overwrite it."
            );
            return ComponentPlan::blocked(ComponentReadiness::not_ready(
                InstanceReason::PostgresEnsureFailed,
                message,
            ));
        }
        Credentials::Usable => None,
    };
    if let Some(refusal) = input.limits.rejected.get(&Component::Postgres) {
        let message = format!("Failed to create or update PostgreSQL: {refusal}");
        return ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::PostgresEnsureFailed,
            message,
        ));
    }
    match ensure(input, &[InstanceObject::PostgresSet, InstanceObject::PostgresService]) {
        Ok(writes) => ComponentPlan {
            writes: credentials.into_iter().chain(writes).collect(),
            readiness: readiness(input),
            requeue_after: None,
        },
        Err(foreign) => ComponentPlan::blocked(foreign),
    }
}

fn readiness(input: &Input) -> ComponentReadiness {
    match input.observed.workloads.get(&Component::Postgres) {
        Some(workload) if workload.serves(Component::Postgres) => {
            ComponentReadiness::ready("PostgreSQL is ready.".to_owned())
        }
        Some(workload) => {
            let message = format!("PostgreSQL is not ready: {}", workload.describe());
            ComponentReadiness::not_ready(InstanceReason::Provisioning, message)
        }
        None => ComponentReadiness::not_ready(InstanceReason::Provisioning, "PostgreSQL is being created.".to_owned()),
    }
}

/// The data is only accessible with the password that was generated for it.
fn lost(input: &Input) -> ComponentReadiness {
    let (secret, claim) = (&input.desired.credentials, &input.desired.claim);
    let message = format!(
        "Secret {secret} with the password of PostgreSQL is missing, but its data still exists (PersistentVolumeClaim \
         {claim}) and is not accessible with a new password. Restore the Secret with the keys username, password and \
         database, from a backup or from the pod if it is still running (kubectl exec {set}-0 -- printenv \
         POSTGRES_PASSWORD). If the data is no longer needed, delete StatefulSet {set} and then the claim; the \
         operator then creates a new database.",
        set = InstanceObject::PostgresSet.name(input.name())
    );
    ComponentReadiness::not_ready(InstanceReason::PostgresCredentialsLost, message)
}

fn unread(input: &Input) -> ComponentReadiness {
    let secret = &input.desired.credentials;
    match &input.observed.credentials {
        Credentials::Unreadable(why) => ComponentReadiness::not_ready(
            InstanceReason::ProbeFailed,
            format!("Cannot read Secret {secret} with the credentials of PostgreSQL: {why}."),
        ),
        Credentials::Unknown | Credentials::Missing | Credentials::Unusable(_) | Credentials::Usable => {
            ComponentReadiness::not_ready(
                InstanceReason::Provisioning,
                format!("Secret {secret} with the credentials of PostgreSQL has not been read yet."),
            )
        }
    }
}

fn external(input: &Input) -> ComponentPlan {
    let secret = &input.desired.credentials;
    let failed = |message: String| {
        ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::PostgresSecretPreflightFailed,
            message,
        ))
    };
    match &input.observed.credentials {
        Credentials::Unknown | Credentials::Unreadable(_) => ComponentPlan::blocked(unread(input)),
        Credentials::Missing => failed(format!(
            "Secret {secret}, referenced by spec.metadata.postgres.credentialsSecretRef, does not exist. Create it \
             with the keys username and password; the operator then continues automatically."
        )),
        Credentials::Unusable(why) => failed(format!(
            "Secret {secret}, referenced by spec.metadata.postgres.credentialsSecretRef, is invalid: {why}. Correct \
             it; the operator then continues automatically."
        )),
        Credentials::Usable => ComponentPlan {
            writes: left_behind(input),
            readiness: ComponentReadiness::ready("Using an external PostgreSQL database.".to_owned()),
            requeue_after: None,
        },
    }
}

/// The PostgreSQL that the operator runs is deleted once the metadata service no longer uses it. Its data and its
/// password are kept, so that the change can be reverted.
fn left_behind(input: &Input) -> Vec<InstanceWrite> {
    let workload = input.observed.workloads.get(&Component::Metadata);
    let moved = input.observed.database == Some(Database::External)
        && workload.is_some_and(|workload| workload.serves(Component::Metadata));
    if moved {
        remove(input, &[InstanceObject::PostgresSet, InstanceObject::PostgresService])
    } else {
        Vec::new()
    }
}
