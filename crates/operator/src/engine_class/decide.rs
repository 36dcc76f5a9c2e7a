//! A decision: from the caches, and again from a live look if it is grave.

use firebolt_api::FireboltEngineClass;
use firebolt_core::plan::engine_class::{Input, Plan, plan};
use jiff::Timestamp;

use super::observe;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::write::PassError;

/// Decides about one class.
pub async fn decide(context: &Context, class: &FireboltEngineClass) -> Result<Plan, PassError> {
    let (key, now) = (ObjectKey::of(class), Timestamp::now());
    let deleting = class.metadata.deletion_timestamp.is_some();
    let observed = observe::cached(&context.caches, &key, deleting);
    let input = Input {
        class,
        observed: &observed,
        now,
    };
    let first = plan(&input);
    if !first.needs_live_reads(&input) {
        return Ok(first);
    }
    let observed = observe::live(&context.client, &key).await?;
    Ok(plan(&Input {
        observed: &observed,
        ..input
    }))
}
