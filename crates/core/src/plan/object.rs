//! What is known of an object in the cluster, whatever its kind.

/// What every observed object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The identity that deletes are guarded by.
    pub uid: String,
    /// Whether the UID of the object that is looked after is the controlling owner. What is not owned is never touched.
    pub owned: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Finalizers that neither we nor Kubernetes itself put there.
    pub foreign_finalizers: Vec<String>,
}

/// An object that is applied whenever it is not what we render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Identity, owner, deletion.
    pub meta: Meta,
    /// Whether every field that we render has the rendered value.
    pub intact: bool,
}
