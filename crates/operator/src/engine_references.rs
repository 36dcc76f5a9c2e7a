//! Which engines reference an instance or a class, read live from the API server.

use firebolt_api::FireboltEngine;
use firebolt_runtime::informer::Guarded;
use firebolt_runtime::{ObjectKey, ReconcileError};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::observation::in_time;

/// Engines per page.
const PAGE_SIZE: u32 = 500;

/// The engines in the namespace of an object that may reference it.
#[derive(Debug, Default)]
pub(crate) struct EngineReferences {
    /// The names of those that do.
    pub bound: Vec<String>,
    /// The names of those that cannot be read, so that their references are unknown.
    pub unreadable: Vec<String>,
}

/// Lists the engines in the namespace of an object that reference it. The label selector of the operator does not apply:
/// engines that it does not manage need the object too.
pub(crate) async fn live(
    client: &Client,
    object: &ObjectKey,
    refers: impl Fn(&FireboltEngine) -> bool,
) -> Result<EngineReferences, ReconcileError> {
    in_time("list", "FireboltEngine", object.clone(), pages(client, object, refers)).await
}

async fn pages(
    client: &Client,
    object: &ObjectKey,
    refers: impl Fn(&FireboltEngine) -> bool,
) -> Result<EngineReferences, ReconcileError> {
    let api: Api<Guarded<FireboltEngine>> = Api::namespaced(client.clone(), &object.namespace);
    let (mut page, mut references) = (ListParams::default().limit(PAGE_SIZE), EngineReferences::default());
    loop {
        let list = api.list(&page).await;
        let list = list.map_err(|error| ReconcileError::read("list", "FireboltEngine", object, error))?;
        for engine in &list.items {
            match &engine.0 {
                Ok(engine) if refers(engine) => references.bound.push(engine.name_any()),
                Ok(_other) => {}
                Err(_unreadable) => references.unreadable.push(engine.name_any()),
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(references),
        }
    }
}
