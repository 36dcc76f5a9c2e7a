//! The kinds that can be watched.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde::de::DeserializeOwned;

/// A namespaced kind that can be read from the API server.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug + Clone + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Debug
        + Clone
        + Send
        + Sync
        + 'static
{
}
