//! Whether a Secret holds what the metadata service needs to get to its database.

use firebolt_core::plan::instance::Credentials as Judgement;
use firebolt_core::render::instance::{POSTGRES_DATABASE, POSTGRES_USER};
use firebolt_core::resolve::instance::{EffectiveInstance, Postgres};

use crate::watches::{Credentials, KeyState, KnownSecret};

/// Judges what was found, and tells what stands for the credentials if they can be used.
pub fn judge(found: &Credentials, instance: &EffectiveInstance) -> (Judgement, Option<String>) {
    let secret = match found {
        Credentials::Unknown(None) => return (Judgement::Unknown, None),
        Credentials::Unknown(Some(why)) => return (Judgement::Unreadable(why.clone()), None),
        Credentials::Missing => return (Judgement::Missing, None),
        Credentials::Found(secret) => secret,
    };
    let fault = match instance.postgres {
        Postgres::Internal { .. } => {
            lacking(secret, &["username", "password", "database"]).or_else(|| misnamed(secret))
        }
        Postgres::External(_) => lacking(secret, &["username", "password"]),
    };
    match fault {
        Some(fault) => (Judgement::Unusable(fault), None),
        None => (Judgement::Usable, secret.credentials_hash.clone()),
    }
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
