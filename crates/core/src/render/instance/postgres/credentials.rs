//! The Secret with the credentials that the server is initialised with. It is created once and never written again: the
//! password in it is the one in the data.

use std::collections::BTreeMap;

use firebolt_api::key::Component;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::{POSTGRES_DATABASE, POSTGRES_USER};
use crate::render::instance::{DATABASE_KEY, PASSWORD_KEY, USERNAME_KEY, object_meta};
use crate::resolve::instance::EffectiveInstance;

/// Renders the Secret with this password.
#[must_use]
pub fn postgres_credentials(instance: &EffectiveInstance, password: &str) -> Secret {
    let entry = |key: &str, value: &str| (key.to_owned(), ByteString(value.as_bytes().to_vec()));
    Secret {
        metadata: object_meta(instance, instance.names().postgres_credentials(), Component::Postgres),
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([
            entry(USERNAME_KEY, POSTGRES_USER),
            entry(PASSWORD_KEY, password),
            entry(DATABASE_KEY, POSTGRES_DATABASE),
        ])),
        ..Secret::default()
    }
}
