//! The input of a plan: the instance, its desired state, its observed state, and the time.
//!
//! # Requirements for the caller
//!
//! - A failed read is an error of the reconcile, never an absence in [`Observed`].
//! - Watch caches are sufficient for a first plan. As long as [`Plan::reads_needed`](super::Plan::reads_needed) asks for
//!   more, that is read live, including the claim, and the plan is made again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firebolt_api::FireboltInstance;
use jiff::Timestamp;
use strum::EnumIter;

use super::object::{Component, InstanceObject, InstanceObjectKind};
use super::workload::Workload;
use crate::database::Database;
use crate::plan::{Meta, ObservedChild};

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The instance, as read in this reconcile.
    pub instance: &'a FireboltInstance,
    /// The desired state.
    pub desired: &'a Desired,
    /// The observed state of the cluster.
    pub observed: &'a Observed,
    /// What earlier reconciles limit this one to.
    pub limits: Limits<'a>,
    /// A new unique identifier, for an instance that has none.
    pub fresh_id: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// What earlier reconciles of the same process limit this one to. The default limits nothing.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// The components of which the API server rejected an object that is not to be sent again yet, each with the error
    /// message, in sentences.
    pub rejected: &'a BTreeMap<Component, String>,
    /// When the first object that was rejected is to be sent again.
    pub retry_after: Option<Duration>,
    /// How long the next reconcile has to wait if this one writes anything; `None` unless drift was corrected often lately,
    /// because another client keeps changing it back.
    pub drift: Option<Duration>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        static NONE: BTreeMap<Component, String> = BTreeMap::new();
        Self {
            rejected: &NONE,
            retry_after: None,
            drift: None,
        }
    }
}

/// The desired state, as far as plans depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Address of the metadata service once it is ready.
    pub metadata_endpoint: String,
    /// Address of the gateway once it is ready.
    pub gateway_endpoint: String,
    /// The database of the metadata service.
    pub database: Database,
    /// Name of the Secret with its credentials.
    pub credentials: String,
    /// Name of the PersistentVolumeClaim of the PostgreSQL that the operator runs.
    pub claim: String,
    /// Whether the gateway uses the ServiceAccount of the operator and not one of the user.
    pub(crate) own_account: bool,
    /// What is wrong with the spec of a component, in sentences. Such a component is not modified.
    pub rejected: BTreeMap<Component, String>,
}

/// The observed state of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Objects with the names of the objects of the instance, regardless of their owner.
    pub objects: BTreeMap<InstanceObject, ObservedChild>,
    /// The components whose pods another version of the operator rendered, if this one renders them differently.
    pub outdated: BTreeSet<Component>,
    /// Rollout status of the components.
    pub workloads: BTreeMap<Component, Workload>,
    /// The credentials of the metadata service.
    pub credentials: Credentials,
    /// Whether the PersistentVolumeClaim of PostgreSQL exists. Read only live.
    pub claim: bool,
    /// The database that the metadata service was created with, if it was created.
    pub database: Option<Database>,
    /// The engines that reference the instance.
    pub engines: Vec<String>,
    /// Every object of the instance, in the order in which they are deleted. Needed only once the instance is being
    /// deleted.
    pub leftovers: Vec<Leftover>,
}

/// State of the Secret with the credentials of the metadata service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// It has not been read yet.
    #[default]
    Unknown,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// It does not exist.
    Missing,
    /// It cannot be used, for this reason.
    Unusable(String),
    /// It can be used.
    Usable,
}

/// When an object is deleted, among those of its component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Order {
    /// First.
    First,
    /// When no pod is left that uses it: data.
    Data,
    /// When its data is deleted: a password.
    Last,
}

/// An object to delete before the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its component. Components are deleted one after the other.
    pub component: Component,
    /// When it is deleted, among the objects of its component.
    pub order: Order,
    /// Its kind.
    pub kind: InstanceObjectKind,
    /// Its name.
    pub name: String,
    /// Metadata.
    pub meta: Meta,
}
