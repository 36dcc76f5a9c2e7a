//! Which engines refer to an instance or a class, by what the API server says at this moment.

use firebolt_api::FireboltEngine;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::key::ObjectKey;
use crate::watches::Guarded;
use crate::write::{LONGEST_REQUEST, PassError};

/// How many engines are read at once.
const ENGINES_AT_ONCE: u32 = 500;

/// The engines in the namespace of an object, as far as they may refer to it.
#[derive(Debug, Default)]
pub struct Referring {
    /// Those that do, by name.
    pub bound: Vec<String>,
    /// Those that cannot be read, by name: nobody knows what they refer to.
    pub unreadable: Vec<String>,
}

/// Lists the engines in the namespace of an object, and finds those that refer to it. All of them, also those that the
/// operator is told not to look after: they need the object too.
pub async fn live(
    client: &Client,
    object: &ObjectKey,
    refers: impl Fn(&FireboltEngine) -> bool,
) -> Result<Referring, PassError> {
    match tokio::time::timeout(LONGEST_REQUEST, pages(client, object, refers)).await {
        Ok(referring) => referring,
        Err(_elapsed) => Err(PassError::TimedOut {
            verb: "list",
            kind: "FireboltEngine".to_owned(),
            object: object.clone(),
            limit: LONGEST_REQUEST,
        }),
    }
}

async fn pages(
    client: &Client,
    object: &ObjectKey,
    refers: impl Fn(&FireboltEngine) -> bool,
) -> Result<Referring, PassError> {
    let api: Api<Guarded<FireboltEngine>> = Api::namespaced(client.clone(), &object.namespace);
    let (mut page, mut referring) = (ListParams::default().limit(ENGINES_AT_ONCE), Referring::default());
    loop {
        let list = api.list(&page).await;
        let list = list.map_err(|error| PassError::read("list", "FireboltEngine", object, error))?;
        for engine in &list.items {
            match &engine.0 {
                Ok(engine) if refers(engine) => referring.bound.push(engine.name_any()),
                Ok(_other) => {}
                Err(_unreadable) => referring.unreadable.push(engine.name_any()),
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(referring),
        }
    }
}
