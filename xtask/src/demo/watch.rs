//! Objects as they change: nothing is asked twice.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;

use super::Result;

/// How long anything may take. The API server ends the watch then, at the latest after five minutes.
const LIMIT: Duration = Duration::from_mins(4);

/// Each state of some objects, and whether the object still exists.
pub(super) type Changes<K> = Pin<Box<dyn Stream<Item = Result<(K, bool)>>>>;

/// Watches the objects that `which` selects, beginning with their present states.
pub(super) async fn changes<K>(api: &Api<K>, which: WatchParams) -> Result<Changes<K>>
where
    K: Clone + Debug + DeserializeOwned + 'static,
{
    let seconds = u32::try_from(LIMIT.as_secs())?;
    let events = api.watch(&which.timeout(seconds), "0").await?;
    let changes = events.filter_map(async |event| match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(Ok((object, true))),
        Ok(WatchEvent::Deleted(object)) => Some(Ok((object, false))),
        Ok(WatchEvent::Bookmark(_)) => None,
        Ok(WatchEvent::Error(status)) => Some(Err(format!("watch: {}", status.message).into())),
        Err(error) => Some(Err(error.into())),
    });
    Ok(Box::pin(changes))
}

/// Waits until an object satisfies `check`, which is called for each of its states.
pub(super) async fn until<K>(api: &Api<K>, name: &str, mut check: impl FnMut(&K) -> Result<bool>) -> Result<K>
where
    K: Clone + Debug + DeserializeOwned + 'static,
{
    let named = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut changes = changes(api, named).await?;
    while let Some(change) = changes.next().await {
        let (object, exists) = change?;
        if exists && check(&object)? {
            return Ok(object);
        }
    }
    Err(format!("wait for {name}: it took longer than {} minutes", LIMIT.as_secs() / 60).into())
}

/// What the condition `Ready` says.
pub(super) fn news(conditions: &[Condition]) -> &str {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map_or("not seen by the operator yet", |ready| &ready.message)
}
