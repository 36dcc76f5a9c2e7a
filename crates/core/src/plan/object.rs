//! Observed state of an object in the cluster, regardless of its kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Metadata of an observed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// UID, used as a precondition of deletes.
    pub uid: String,
    /// Whether the reconciled object is its controller owner, by UID. Objects that are not owned are never modified.
    pub owned: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Finalizers of other controllers, without those of Kubernetes itself.
    pub foreign_finalizers: Vec<String>,
}

/// An object that is applied again whenever it differs from the rendered object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedChild {
    /// Metadata.
    pub meta: Meta,
    /// Whether every rendered field has the rendered value.
    pub intact: bool,
}

/// Whether an object has this finalizer.
pub(crate) fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|known| known == finalizer)
}
