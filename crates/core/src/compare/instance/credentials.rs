//! Whether a Secret holds what the metadata service needs to connect to its database.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::plan::instance::Credentials;
use crate::render::instance::{DATABASE_KEY, PASSWORD_KEY, POSTGRES_DATABASE, POSTGRES_USER, USERNAME_KEY};
use crate::resolve::instance::{EffectiveInstance, Postgres};
use crate::text::shortened;

/// The longest reason that is reported for a Secret that cannot be read.
const LONGEST_REASON: usize = 300;

/// The result of reading the Secret with the credentials of the database.
#[derive(Clone, Debug, Default)]
pub enum SecretLookup {
    /// It was not looked for yet.
    #[default]
    Unknown,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// There is none.
    Missing,
    /// It exists.
    Found(Box<SecretOutline>),
}

/// A Secret without its values.
#[derive(Clone, Debug)]
pub struct SecretOutline {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its keys, and whether there is a value under each.
    pub keys: BTreeMap<String, bool>,
    /// The name of the user in it.
    pub username: Option<String>,
    /// The name of the database in it.
    pub database: Option<String>,
    /// The hash of user name and password; none unless there are both.
    pub credentials_hash: Option<String>,
}

/// Whether the credentials can be used, and their hash if they can.
pub(super) fn check(found: &SecretLookup, instance: &EffectiveInstance) -> (Credentials, Option<String>) {
    let secret = match found {
        SecretLookup::Unknown => return (Credentials::Unknown, None),
        SecretLookup::Unreadable(why) => {
            let why = shortened(why.trim_end_matches('.'), LONGEST_REASON);
            return (Credentials::Unreadable(why), None);
        }
        SecretLookup::Missing => return (Credentials::Missing, None),
        SecretLookup::Found(secret) => secret,
    };
    let fault = match instance.postgres {
        Postgres::Internal { .. } => orphaned(secret, &instance.uid)
            .or_else(|| incomplete(secret, &[USERNAME_KEY, PASSWORD_KEY, DATABASE_KEY]))
            .or_else(|| wrongly_named(secret)),
        Postgres::External(_) => incomplete(secret, &[USERNAME_KEY, PASSWORD_KEY]),
    };
    match fault {
        Some(fault) => (Credentials::Unusable(fault), None),
        None => (Credentials::Usable, secret.credentials_hash.clone()),
    }
}

/// What belonged to an instance that is gone is deleted by Kubernetes, sooner or later.
fn orphaned(secret: &SecretOutline, instance: &str) -> Option<String> {
    let mut owners = secret.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "FireboltInstance" && owner.uid != instance)?;
    Some(format!(
        "it is owned by an instance that no longer exists (uid {}), so Kubernetes will delete it; remove its \
         ownerReferences",
        owner.uid
    ))
}

fn incomplete(secret: &SecretOutline, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match secret.keys.get(*key) {
        None => Some(format!("it has no key {key}")),
        Some(false) => Some(format!("its key {key} is empty")),
        Some(true) => None,
    })
}

/// The names in our own Secret are fixed, because the configuration of the metadata service names them too.
fn wrongly_named(secret: &SecretOutline) -> Option<String> {
    let names = [
        (USERNAME_KEY, &secret.username, POSTGRES_USER),
        (DATABASE_KEY, &secret.database, POSTGRES_DATABASE),
    ];
    let (key, _, expected) = names
        .into_iter()
        .find(|(_, value, expected)| value.as_deref() != Some(*expected))?;
    Some(format!("the value of its key {key} must be {expected}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::fixture::{effective, external};
    use super::*;

    fn found(data: &[(&str, &str)]) -> SecretLookup {
        let value = |key: &str| {
            data.iter()
                .find(|(known, _)| *known == key)
                .map(|(_, value)| (*value).to_owned())
        };
        let keys = data.iter().map(|(key, value)| ((*key).to_owned(), !value.is_empty()));
        SecretLookup::Found(Box::new(SecretOutline {
            metadata: ObjectMeta::default(),
            keys: keys.collect(),
            username: value(USERNAME_KEY),
            database: value(DATABASE_KEY),
            credentials_hash: Some("hash".to_owned()),
        }))
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
    #[case::other_user(&[("username", "root"), OURS[1], OURS[2]], "the value of its key username must be firebolt")]
    #[case::other_database(&[OURS[0], OURS[1], ("database", "d")], "the value of its key database must be firebolt_metadata")]
    fn what_is_wrong_with_our_own_is_named(#[case] data: &[(&str, &str)], #[case] fault: &str) {
        assert_eq!(
            check(&found(data), &effective()),
            (Credentials::Unusable(fault.to_owned()), None)
        );
    }

    #[test]
    fn those_of_a_user_need_two_keys_of_any_value() {
        let (credentials, hash) = check(&found(&[("username", "u"), ("password", "p")]), &external());
        assert_eq!(credentials, Credentials::Usable);
        assert!(hash.is_some());
        let lacking = check(&found(&[("username", "u")]), &external()).0;
        assert_eq!(lacking, Credentials::Unusable("it has no key password".to_owned()));
    }

    #[test]
    fn what_nobody_could_read_is_not_missing() {
        let checked = |found| check(&found, &effective()).0;
        assert_eq!(checked(SecretLookup::Unknown), Credentials::Unknown);
        let reason = || "forbidden".to_owned();
        assert_eq!(
            checked(SecretLookup::Unreadable(reason())),
            Credentials::Unreadable(reason())
        );
        assert_eq!(checked(SecretLookup::Missing), Credentials::Missing);
        assert_eq!(checked(found(&OURS)), Credentials::Usable);
    }
}
