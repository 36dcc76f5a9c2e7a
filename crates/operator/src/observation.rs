//! What the observations of engines and instances share.

use std::fmt::Debug;
use std::time::Duration;

use firebolt_runtime::client::REQUEST_TIMEOUT;
use firebolt_runtime::informer::{Index, Store, Watched};
use firebolt_runtime::write::{Expectations, Satisfied};
use firebolt_runtime::{ObjectKey, ReconcileError};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// What an observation led to.
pub(crate) enum Observation<S> {
    /// Everything was read. Boxed, because it is large.
    Complete(Box<S>),
    /// The caches do not show our own writes yet; they are read live after this time.
    CachesBehind(Duration),
}

/// The children in the caches.
pub(crate) enum CachedChildren<C> {
    /// They can be trusted. Boxed, because they are large.
    Trusted(Box<C>),
    /// They do not show our own writes yet.
    Behind(Duration),
    /// An object cannot be read, which must not look like an absence; or the caches must not be trusted.
    Untrusted,
}

/// The children in the caches, if these show our own writes. `version` returns the version of a child by kind and name.
pub(crate) fn trusted<K: Resource + Clone, C>(
    children: C,
    expectations: &mut Expectations<K>,
    version: impl Fn(&C, &str, &str) -> Option<String>,
) -> CachedChildren<C> {
    match expectations.satisfied(|kind, name| version(&children, kind, name), Instant::now()) {
        Satisfied::Yes => CachedChildren::Trusted(Box::new(children)),
        // Whatever is not shown yet comes with a change.
        Satisfied::NotYet(left) => CachedChildren::Behind(left),
        Satisfied::ReadLive => CachedChildren::Untrusted,
    }
}

/// The children of an owner in a cache; `None` if one of them cannot be read.
pub(crate) fn readable<K: Watched>(store: &Store<K>, index: Index<K>, owner: &ObjectKey) -> Option<Vec<K>> {
    let objects = store.by_index(index, owner);
    objects.iter().map(|object| object.0.as_ref().ok().cloned()).collect()
}

/// The object of this name in the API server.
pub(crate) async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await;
    found.map_err(|error| ReconcileError::read("get", &K::kind(&()), &ObjectKey::new(namespace, name), error))
}

/// Several reads that belong together. `verb` and `what` name them in the error if they take too long.
pub(crate) async fn in_time<T>(
    verb: &'static str,
    what: &str,
    object: ObjectKey,
    reads: impl Future<Output = Result<T, ReconcileError>>,
) -> Result<T, ReconcileError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, reads).await {
        Ok(done) => done,
        Err(_elapsed) => Err(ReconcileError::TimedOut {
            verb,
            kind: what.to_owned(),
            object,
            limit: REQUEST_TIMEOUT,
        }),
    }
}
