//! What all verdicts have in common: what is judged at all, and how the things are looked up that an object refers to.

use std::sync::Arc;
use std::time::Duration;

use firebolt_api::FireboltEngine;
use firebolt_core::admit::{Kind, Violation};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::review::{Operation, Request, Verdict};
use crate::error::describe;
use crate::key::ObjectKey;
use crate::metrics::Metrics;
use crate::referring::{self, Referring};
use crate::settings::{Scope, Settings, is_dns_subdomain};
use crate::watches::{Caches, Guarded, Store, Watched};

/// How long the API server may take to answer, so that there is time left to tell what is the matter.
const LONGEST_READ: Duration = Duration::from_secs(4);
/// The most parts, lists and objects, of an object.
const MOST_PARTS: usize = 20_000;

/// Says what may be done to objects of ours.
#[derive(Clone)]
pub struct Judge {
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    pub(super) caches: Arc<Caches>,
    pub(super) metrics: Arc<Metrics>,
}

/// A question that could not be answered, in words for whoever asked. Nothing is let through unseen.
#[derive(Debug, thiserror::Error)]
#[error("{0}. Try again.")]
pub struct Trouble(String);

/// What an object refers to.
pub(super) enum Lookup<K> {
    Found(K),
    Missing,
    /// It is there, but cannot be read; and why.
    Unreadable(String),
}

impl<K> Lookup<K> {
    pub(super) fn found(&self) -> Option<&K> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

/// An object that somebody wants to store.
pub(super) enum Wanted<K> {
    /// It can be judged.
    Object(Box<K>),
    /// There is nothing to judge about it, or nothing that can be.
    Settled(Verdict),
}

impl Judge {
    /// One that knows what these caches know.
    #[must_use]
    pub fn new(client: Client, settings: Arc<Settings>, caches: Arc<Caches>, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            settings,
            caches,
            metrics,
        }
    }

    /// Whether objects of this namespace are looked after by this operator. Others are none of its business.
    pub(super) fn looks_after(&self, namespace: &str) -> bool {
        match &self.settings.scope {
            Scope::Cluster => true,
            Scope::Namespaces(namespaces) => namespaces.iter().any(|known| known == namespace),
        }
    }

    /// The object that is to be stored. One that is being deleted is not judged: nothing may stand in the way of its
    /// finalizers. One that cannot be read is refused: the controllers could not read it either.
    pub(super) fn wanted<K: Watched>(&self, request: &Request) -> Wanted<K> {
        let Some(text) = request
            .object
            .as_deref()
            .filter(|_| self.looks_after(&request.namespace))
        else {
            return Wanted::Settled(Verdict::accepted());
        };
        if is_being_deleted(text) {
            return Wanted::Settled(Verdict::accepted());
        }
        match read::<K>(text) {
            Ok(mut object) => {
                // Where it goes is what the API server was asked for, whatever it says itself.
                object.meta_mut().namespace = Some(request.namespace.clone());
                Wanted::Object(Box::new(object))
            }
            Err(error) => {
                let (path, cause) = match error.split_once(": ") {
                    Some((path, cause)) if path.starts_with("spec") => (path.to_owned(), cause),
                    _ => ("spec".to_owned(), error.as_str()),
                };
                let message = format!("This cannot be read: {cause}. Correct it.");
                Wanted::Settled(Verdict::of(vec![Violation {
                    path,
                    kind: Kind::Invalid,
                    message,
                }]))
            }
        }
    }

    /// The object before the change, if there is one that can be read.
    pub(super) fn before<K: Watched>(request: &Request) -> Option<K> {
        let before = request
            .old_object
            .as_deref()
            .filter(|_| request.operation == Operation::Update)?;
        read(before).ok()
    }

    /// The object of a name, from the cache. What was just created may not have reached it, so what is not there is looked
    /// up.
    pub(super) async fn find<K: Watched>(&self, cache: &Store<K>, object: &ObjectKey) -> Result<Lookup<K>, Trouble> {
        if let Some(cached) = cache.get(object)
            && let Ok(object) = &cached.0
        {
            return Ok(Lookup::Found(object.clone()));
        }
        self.look_up(object).await
    }

    /// The object of a name, as it is at this moment.
    pub(super) async fn look_up<K: Watched>(&self, object: &ObjectKey) -> Result<Lookup<K>, Trouble> {
        // Nothing has such a name, and it would lead elsewhere.
        if !is_dns_subdomain(&object.name) {
            return Ok(Lookup::Missing);
        }
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &object.namespace);
        let found = timeout(LONGEST_READ, api.get_opt(&object.name)).await;
        let attempt = || format!("cannot get {} {object}", K::kind(&()));
        Ok(match told(found, attempt)? {
            None => Lookup::Missing,
            Some(Guarded(Ok(object))) => Lookup::Found(object),
            Some(Guarded(Err(unreadable))) => Lookup::Unreadable(unreadable.error),
        })
    }

    /// The engines for which `refers` holds, in the namespace of the object that is asked about, by what the API server
    /// says: what was bound a moment ago counts. One that cannot be read counts too, because it may.
    pub(super) async fn engines_that(
        &self,
        object: &ObjectKey,
        refers: impl Fn(&FireboltEngine) -> bool,
    ) -> Result<Vec<String>, Trouble> {
        let Referring { bound, unreadable } = referring::live(&self.client, object, refers)
            .await
            .map_err(|error| Trouble(format!("cannot {error}")))?;
        let unreadable = unreadable
            .into_iter()
            .map(|name| format!("{name}, which cannot be read"));
        Ok(bound.into_iter().chain(unreadable).collect())
    }
}

/// The object that is asked about. When many are deleted at once, only the object itself says which one it is.
pub(super) fn key_of(request: &Request) -> Result<ObjectKey, Trouble> {
    let name = match request.name.as_str() {
        "" => {
            let object = request.object.as_deref().or(request.old_object.as_deref());
            object.and_then(outline).and_then(|metadata| metadata.name)
        }
        name => Some(name.to_owned()),
    };
    let name = name.filter(|name| is_dns_subdomain(name));
    let name = name.ok_or_else(|| Trouble("cannot tell which object is meant".to_owned()))?;
    Ok(ObjectKey::new(&request.namespace, &name))
}

fn told<T>(
    answer: Result<kube::Result<T>, tokio::time::error::Elapsed>,
    attempt: impl Fn() -> String,
) -> Result<T, Trouble> {
    match answer {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Trouble(format!("{}: {}", attempt(), describe(&error)))),
        Err(_elapsed) => Err(Trouble(format!(
            "{}: no answer from the API server within {LONGEST_READ:?}",
            attempt()
        ))),
    }
}

/// The object, or where it cannot be read.
fn read<K: Watched>(text: &RawValue) -> Result<K, String> {
    // Each part takes much more room when it is read than it has as a text.
    let parts = text.get().bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if parts > MOST_PARTS {
        return Err(format!("it has {parts} parts, and {MOST_PARTS} is the most"));
    }
    let guarded: Guarded<K> = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
    guarded.0.map_err(|unreadable| unreadable.error)
}

/// What is read of an object without the rest, which may be unreadable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    deletion_timestamp: Option<String>,
}

fn outline(text: &RawValue) -> Option<Metadata> {
    #[derive(Deserialize)]
    struct Outline {
        metadata: Metadata,
    }
    let outline: Outline = serde_json::from_str(text.get()).ok()?;
    Some(outline.metadata)
}

/// Whether the object is on its way out.
fn is_being_deleted(text: &RawValue) -> bool {
    outline(text).is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}
