//! Whether a Secret holds what the metadata service needs to get to its database.

use firebolt_api::FireboltInstance;
use firebolt_core::plan::instance::Credentials as Judgement;
use firebolt_core::render::instance::{POSTGRES_DATABASE, POSTGRES_USER};
use firebolt_core::resolve::instance::{EffectiveInstance, Postgres};
use kube::Resource;

use crate::error::shortened;
use crate::watches::{Credentials, KeyState, KnownSecret};

/// The most that is told of why a Secret cannot be read.
const LONGEST_REASON: usize = 300;

/// Judges what was found, and tells what stands for the credentials if they can be used.
pub fn judge(found: &Credentials, instance: &EffectiveInstance) -> (Judgement, Option<String>) {
    let secret = match found {
        Credentials::Unknown(None) => return (Judgement::Unknown, None),
        Credentials::Unknown(Some(why)) => {
            let why = shortened(why.trim_end_matches('.'), LONGEST_REASON);
            return (Judgement::Unreadable(why), None);
        }
        Credentials::Missing => return (Judgement::Missing, None),
        Credentials::Found(secret) => secret,
    };
    let fault = match instance.postgres {
        Postgres::Internal { .. } => doomed(secret, &instance.uid)
            .or_else(|| lacking(secret, &["username", "password", "database"]))
            .or_else(|| misnamed(secret)),
        Postgres::External(_) => lacking(secret, &["username", "password"]),
    };
    match fault {
        Some(fault) => (Judgement::Unusable(fault), None),
        None => (Judgement::Usable, secret.credentials_hash.clone()),
    }
}

/// What belonged to an instance that is gone is deleted by Kubernetes, sooner or later.
fn doomed(secret: &KnownSecret, instance: &str) -> Option<String> {
    let mut owners = secret.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == FireboltInstance::kind(&()) && owner.uid != instance)?;
    Some(format!(
        "it belongs to an instance that is gone (uid {}), and Kubernetes will delete it; remove its ownerReferences",
        owner.uid
    ))
}

fn lacking(secret: &KnownSecret, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match secret.keys.get(*key) {
        None => Some(format!("it has no key {key}")),
        Some(KeyState::Empty) => Some(format!("its key {key} is empty")),
        Some(KeyState::Filled) => None,
    })
}

/// The names in our own Secret are fixed, because the configuration of the metadata service names them too.
fn misnamed(secret: &KnownSecret) -> Option<String> {
    let names = [
        ("username", &secret.username, POSTGRES_USER),
        ("database", &secret.database, POSTGRES_DATABASE),
    ];
    let (key, _, expected) = names
        .into_iter()
        .find(|(_, value, expected)| value.as_deref() != Some(*expected))?;
    Some(format!("its key {key} is not {expected}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::Secret;
    use rstest::rstest;

    use super::*;
    use crate::instance::fixture::{effective, external};

    fn found(data: &[(&str, &str)]) -> Credentials {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        Credentials::Found(Arc::new(KnownSecret::of(secret, "uid")))
    }

    const OURS: [(&str, &str); 3] = [
        ("username", POSTGRES_USER),
        ("password", "p"),
        ("database", POSTGRES_DATABASE),
    ];

    #[rstest]
    #[case::no_password(&[OURS[0], OURS[2]], "it has no key password")]
    #[case::no_database(&OURS[..2], "it has no key database")]
    #[case::empty_password(&[OURS[0], ("password", ""), OURS[2]], "its key password is empty")]
    #[case::other_user(&[("username", "root"), OURS[1], OURS[2]], "its key username is not firebolt")]
    #[case::other_database(&[OURS[0], OURS[1], ("database", "d")], "its key database is not firebolt_metadata")]
    fn what_is_wrong_with_our_own_is_named(#[case] data: &[(&str, &str)], #[case] fault: &str) {
        assert_eq!(
            judge(&found(data), &effective()),
            (Judgement::Unusable(fault.to_owned()), None)
        );
    }

    #[test]
    fn those_of_a_user_need_two_keys_of_any_value() {
        let (judgement, hash) = judge(&found(&[("username", "u"), ("password", "p")]), &external());
        assert_eq!(judgement, Judgement::Usable);
        assert!(hash.is_some());
        let lacking = judge(&found(&[("username", "u")]), &external()).0;
        assert_eq!(lacking, Judgement::Unusable("it has no key password".to_owned()));
    }

    #[test]
    fn what_nobody_could_read_is_not_missing() {
        let judged = |found| judge(&found, &effective()).0;
        assert_eq!(judged(Credentials::Unknown(None)), Judgement::Unknown);
        let reason = || "forbidden".to_owned();
        assert_eq!(
            judged(Credentials::Unknown(Some(reason()))),
            Judgement::Unreadable(reason())
        );
        assert_eq!(judged(Credentials::Missing), Judgement::Missing);
        assert_eq!(judged(found(&OURS)), Judgement::Usable);
    }
}
