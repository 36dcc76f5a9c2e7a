//! Secrets without their values: those are dropped when they arrive, and a hash is kept. Only the names of user and database
//! are kept in clear.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use firebolt_core::resolve::instance::credentials_hash;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::prune::keep_own_annotations;

/// The keys of a Secret with credentials.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const DATABASE: &str = "database";

/// What is known of a Secret.
#[derive(Clone, Debug)]
pub struct KnownSecret {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its type.
    pub type_: Option<String>,
    /// Its keys.
    pub keys: BTreeMap<String, KeyState>,
    /// The value of `username`.
    pub username: Option<String>,
    /// The value of `database`.
    pub database: Option<String>,
    /// The hash of user name and password, if there are both.
    pub credentials_hash: Option<String>,
    /// The values to hash, until the Secret is in the cache.
    arriving: Option<Arriving>,
}

/// Whether a key has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The value is empty.
    Empty,
    /// It has a value.
    Filled,
}

/// User name and password.
#[derive(Clone)]
struct Arriving(ByteString, ByteString);

impl fmt::Debug for Arriving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(redacted)")
    }
}

impl KnownSecret {
    /// What is kept of a Secret that was read for the instance with this UID.
    #[must_use]
    pub(crate) fn of(secret: Secret, instance: &str) -> Self {
        let mut known = Self::from(Stored {
            metadata: secret.metadata,
            type_: secret.type_,
            data: secret.data,
        });
        known.seal(instance);
        known
    }

    /// Drops the values and keeps their hash for the instance with this UID.
    pub(super) fn seal(&mut self, instance: &str) {
        let arriving = self.arriving.take();
        self.credentials_hash =
            arriving.map(|Arriving(username, password)| credentials_hash(instance, &username.0, &password.0));
        keep_own_annotations(&mut self.metadata);
    }
}

impl From<Stored> for KnownSecret {
    fn from(Stored { metadata, type_, data }: Stored) -> Self {
        let mut data = data.unwrap_or_default();
        let state = |value: &ByteString| {
            if value.0.is_empty() {
                KeyState::Empty
            } else {
                KeyState::Filled
            }
        };
        let keys = data.iter().map(|(key, value)| (key.clone(), state(value))).collect();
        let name = |key| data.get(key).and_then(|value| String::from_utf8(value.0.clone()).ok());
        let (username, database) = (name(USERNAME), name(DATABASE));
        let mut take = |key| data.remove(key).filter(|value| !value.0.is_empty());
        let arriving = take(USERNAME).zip(take(PASSWORD));
        Self {
            metadata,
            type_,
            keys,
            username,
            database,
            credentials_hash: None,
            arriving: arriving.map(|(username, password)| Arriving(username, password)),
        }
    }
}

impl<'de> Deserialize<'de> for KnownSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Stored::deserialize(deserializer).map(Self::from)
    }
}

/// The fields of a Secret that are read.
#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    type_: Option<String>,
    data: Option<BTreeMap<String, ByteString>>,
}

impl Resource for KnownSecret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Secret::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Secret::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Secret::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Secret::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn stored(data: &[(&str, &str)]) -> KnownSecret {
        let data: BTreeMap<&str, ByteString> = data
            .iter()
            .map(|(key, value)| (*key, ByteString(value.as_bytes().to_vec())))
            .collect();
        serde_json::from_value(json!({ "metadata": { "name": "s" }, "type": "Opaque", "data": data })).unwrap()
    }

    fn kept(data: &[(&str, &str)]) -> KnownSecret {
        let mut secret = stored(data);
        secret.seal("i");
        secret
    }

    #[test]
    fn nothing_but_names_is_ever_shown_or_kept() {
        let data = [("password", "xyzzy"), ("other", "hidden"), ("username", "root")];
        let (arriving, kept) = (stored(&data), kept(&data));
        assert!(kept.arriving.is_none());
        for shown in [format!("{arriving:?}"), format!("{kept:?}")] {
            for (_, value) in &data[..2] {
                let bytes = format!("{:?}", value.as_bytes());
                assert!(!shown.contains(value) && !shown.contains(&bytes), "{shown}");
            }
        }
    }

    #[test]
    fn keys_names_and_type_are_known() {
        let kept = kept(&[("username", "u"), ("password", "")]);
        let keys = [("password", KeyState::Empty), ("username", KeyState::Filled)];
        assert_eq!(kept.keys, keys.map(|(key, state)| (key.to_owned(), state)).into());
        assert_eq!(kept.type_.as_deref(), Some("Opaque"));
        assert_eq!((kept.username.as_deref(), kept.database), (Some("u"), None));
    }

    #[test]
    fn a_secret_is_the_same_however_it_was_read() {
        let data =
            [("username", "u"), ("password", "p")].map(|(key, value)| (key.to_owned(), ByteString(value.into())));
        let secret = Secret {
            data: Some(data.into()),
            ..Secret::default()
        };
        let read = KnownSecret::of(secret, "i");
        let watched = kept(&[("username", "u"), ("password", "p")]);
        assert_eq!(read.credentials_hash, watched.credentials_hash);
        assert!(read.credentials_hash.is_some() && read.arriving.is_none());
    }

    #[rstest]
    #[case::both(&[("username", "u"), ("password", "p")], true)]
    #[case::no_password(&[("username", "u")], false)]
    #[case::an_empty_user_name(&[("username", ""), ("password", "p")], false)]
    fn credentials_have_a_hash(#[case] data: &[(&str, &str)], #[case] expected: bool) {
        assert_eq!(kept(data).credentials_hash.is_some(), expected);
    }
}
