//! What a decision is made from: the instance, what the resolver made of it, what was seen in the cluster, and the time.
//!
//! # What the caller owes
//!
//! - A failed read is an error of the pass, never an absence in [`Observed`].
//! - Watch caches will do for a first decision. If [`Plan::needs_live_reads`](super::Plan::needs_live_reads) says so,
//!   everything is read live, the claim and the engines included, and the decision is made again.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use jiff::Timestamp;
use strum::EnumIter;

use super::output::{Component, Database, Kind, Object};
use super::workload::Workload;
use crate::plan::{Child, Meta};

/// Everything that one decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The instance as it was read.
    pub instance: &'a FireboltInstance,
    /// What the resolver made of it.
    pub wanted: &'a Wanted,
    /// What was seen in the cluster.
    pub observed: &'a Observed,
    /// An identity that no other instance has, should this one need one.
    pub fresh_id: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What is wanted, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where the metadata service answers once it is ready.
    pub metadata_endpoint: String,
    /// Where the gateway answers once it is ready.
    pub gateway_endpoint: String,
    /// Which database the metadata service is to use.
    pub database: Database,
    /// The Secret with its credentials.
    pub credentials: String,
    /// The claim with the data of our own PostgreSQL.
    pub claim: String,
    /// Whether the gateway runs under an account of ours, and not of a user.
    pub own_account: bool,
    /// What is wrong with the specification of a component, in sentences. Such a component is not touched.
    pub rejected: BTreeMap<Component, String>,
}

/// What was seen in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What has the name of one of our objects, whoever made it.
    pub objects: BTreeMap<Object, Child>,
    /// How far the pods of a component are.
    pub workloads: BTreeMap<Component, Workload>,
    /// The credentials that the metadata service uses.
    pub credentials: Credentials,
    /// Whether the claim with the data of PostgreSQL exists. Looked for in live reads only.
    pub claim: bool,
    /// The database that the metadata service was set up with, if it was.
    pub database: Option<Database>,
    /// The engines that refer to the instance.
    pub engines: Vec<String>,
    /// What the API server refused to store, and may refuse again, in its words.
    pub refused: BTreeMap<Component, String>,
    /// Everything that belongs to the instance, in the order in which it is removed. Needed only once the instance is being
    /// deleted.
    pub leftovers: Vec<Leftover>,
}

/// The Secret that the metadata service reads its credentials from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// It was not looked for yet.
    #[default]
    Unknown,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// There is none.
    Missing,
    /// It cannot be used, for this reason.
    Unusable(String),
    /// It can be used.
    Usable,
}

/// When an object goes, among those of its component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Order {
    /// At first.
    First,
    /// When no pod is left that uses it: data.
    Data,
    /// When nothing is left that it opens: a password.
    Last,
}

/// Something to remove before the instance can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What it belongs to. Components go one after the other.
    pub component: Component,
    /// When it goes, among the objects of its component.
    pub order: Order,
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Identity, owner, deletion.
    pub meta: Meta,
}
