//! PostgreSQL: our own, or the way to one of somebody else.

use firebolt_api::condition::InstanceReason;

use super::input::{Credentials, Input};
use super::output::{Component, Database, Object, Write};
use super::step::{Step, Verdict, ensure, remove};
use crate::plan::names;

/// Sees to a database that the metadata service can use. Whether our own is up yet is for the metadata service to find
/// out; it tries again by itself.
pub(super) fn step(input: &Input) -> Step {
    if let Some(refusal) = switch_refused(input) {
        return Step::held_up(refusal);
    }
    match input.wanted.database {
        Database::Internal => internal(input),
        Database::External => external(input),
    }
}

/// Another database means another content. Engines would lose theirs without a word.
fn switch_refused(input: &Input) -> Option<Verdict> {
    let used = input.observed.database.filter(|used| *used != input.wanted.database)?;
    let engines = &input.observed.engines;
    if engines.is_empty() {
        return None;
    }
    let [why, remedy] = switch(used, engines);
    let message = format!("{why} The metadata service stays as it is and is not looked after. {remedy}");
    Some(Verdict::not_ready(InstanceReason::PostgresSwitchRefused, message))
}

/// Why the metadata service may not leave the database that it uses, and what to do, each in a sentence.
pub(crate) fn switch(used: Database, engines: &[String]) -> [String; 2] {
    let (change, remedy) = match used {
        Database::Internal => (
            "spec.metadata.postgres was added, but the metadata service keeps its data in the PostgreSQL that the operator runs",
            "Remove spec.metadata.postgres again",
        ),
        Database::External => (
            "spec.metadata.postgres was removed, but the metadata service keeps its data in that database",
            "Put spec.metadata.postgres back",
        ),
    };
    [
        format!("{change}, which is needed by {}.", names::engines(engines)),
        format!("{remedy}; to change the database, delete the engines first."),
    ]
}

fn internal(input: &Input) -> Step {
    let secret = &input.wanted.credentials;
    let credentials = match &input.observed.credentials {
        Credentials::Unknown | Credentials::Unreadable(_) => return Step::held_up(unread(input)),
        Credentials::Missing if input.observed.claim => return Step::held_up(lost(input)),
        Credentials::Missing => Some(Write::Create(Object::PostgresCredentials)),
        Credentials::Unusable(why) => {
            let message = format!(
                "Secret {secret} with the credentials of PostgreSQL cannot be used: {why}. Restore what it held; the \
                 operator does not overwrite it."
            );
            return Step::held_up(Verdict::not_ready(InstanceReason::PostgresEnsureFailed, message));
        }
        Credentials::Usable => None,
    };
    if let Some(refusal) = input.observed.refused.get(&Component::Postgres) {
        let message = format!("PostgreSQL cannot be set up: {refusal}");
        return Step::held_up(Verdict::not_ready(InstanceReason::PostgresEnsureFailed, message));
    }
    match ensure(input, &[Object::PostgresSet, Object::PostgresService]) {
        Ok(writes) => Step {
            writes: credentials.into_iter().chain(writes).collect(),
            verdict: verdict(input),
            look_again: None,
        },
        Err(foreign) => Step::held_up(foreign),
    }
}

fn verdict(input: &Input) -> Verdict {
    match input.observed.workloads.get(&Component::Postgres) {
        Some(workload) if workload.serves(Component::Postgres) => Verdict::ready("PostgreSQL answers.".to_owned()),
        Some(workload) => {
            let message = format!("PostgreSQL: {}", workload.describe());
            Verdict::not_ready(InstanceReason::Provisioning, message)
        }
        None => Verdict::not_ready(InstanceReason::Provisioning, "PostgreSQL is being created.".to_owned()),
    }
}

/// Its data can only be opened with the password that was made with it.
fn lost(input: &Input) -> Verdict {
    let (secret, claim) = (&input.wanted.credentials, &input.wanted.claim);
    let message = format!(
        "Secret {secret} with the password of PostgreSQL is gone, but the data is still there (PersistentVolumeClaim \
         {claim}), and a new password would not open it. Restore the Secret with the keys username, password and \
         database, from a backup or from the pod if it still runs (kubectl exec {set}-0 -- printenv POSTGRES_PASSWORD). If \
         the data can be given up, delete StatefulSet {set} and then the claim; a new database is set up then.",
        set = Object::PostgresSet.name(input.name())
    );
    Verdict::not_ready(InstanceReason::PostgresCredentialsLost, message)
}

fn unread(input: &Input) -> Verdict {
    let secret = &input.wanted.credentials;
    match &input.observed.credentials {
        Credentials::Unreadable(why) => Verdict::not_ready(
            InstanceReason::ProbeFailed,
            format!("Secret {secret} with the credentials of PostgreSQL cannot be read: {why}."),
        ),
        Credentials::Unknown | Credentials::Missing | Credentials::Unusable(_) | Credentials::Usable => {
            Verdict::not_ready(
                InstanceReason::Provisioning,
                format!("Secret {secret} with the credentials of PostgreSQL is being looked for."),
            )
        }
    }
}

fn external(input: &Input) -> Step {
    let secret = &input.wanted.credentials;
    let failed = |message: String| {
        Step::held_up(Verdict::not_ready(
            InstanceReason::PostgresSecretPreflightFailed,
            message,
        ))
    };
    match &input.observed.credentials {
        Credentials::Unknown | Credentials::Unreadable(_) => Step::held_up(unread(input)),
        Credentials::Missing => failed(format!(
            "Secret {secret}, named by spec.metadata.postgres.credentialsSecretRef, does not exist. Create it with the \
             keys username and password; the operator goes on by itself."
        )),
        Credentials::Unusable(why) => failed(format!(
            "Secret {secret}, named by spec.metadata.postgres.credentialsSecretRef, cannot be used: {why}. Correct it; \
             the operator goes on by itself."
        )),
        Credentials::Usable => Step {
            writes: left_behind(input),
            verdict: Verdict::ready("An external PostgreSQL is used.".to_owned()),
            look_again: None,
        },
    }
}

/// Our own PostgreSQL is removed once the metadata service has left it. Its data and its password stay: whoever goes back
/// finds both.
fn left_behind(input: &Input) -> Vec<Write> {
    let workload = input.observed.workloads.get(&Component::Metadata);
    let moved = input.observed.database == Some(Database::External)
        && workload.is_some_and(|workload| workload.serves(Component::Metadata));
    if moved {
        remove(input, &[Object::PostgresSet, Object::PostgresService])
    } else {
        Vec::new()
    }
}
