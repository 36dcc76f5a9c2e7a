//! The input of a plan: the class, and the engines that reference it.
//!
//! # Requirements for the caller
//!
//! - A failed read is an error of the reconcile, never an absence in [`Observed`].
//! - Watch caches are sufficient for a first plan. If [`Plan::reads_needed`](super::Plan::reads_needed) asks for more, the
//!   engines are listed live and the plan is made again.

use std::time::Duration;

use firebolt_api::FireboltEngineClass;
use jiff::Timestamp;

use crate::plan::Reads;

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The class, as read in this reconcile.
    pub class: &'a FireboltEngineClass,
    /// The engines that reference it.
    pub observed: &'a Observed,
    /// What earlier reconciles limit this one to.
    pub limits: Limits,
}

/// What earlier reconciles of the same process limit this one to. The default limits nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How long the next reconcile has to wait if this one corrects drift; `None` unless drift was corrected often lately,
    /// because another client keeps changing it back.
    pub drift: Option<Duration>,
}

/// The engines in the namespace of a class that concern it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// When they were read.
    pub at: Timestamp,
    /// Names of the engines that reference it, including engines that are being deleted.
    pub bound: Vec<String>,
    /// Names of the engines that cannot be read, so that their class is unknown. Needed only once the class is being
    /// deleted.
    pub unreadable: Vec<String>,
    /// Where they were read: in the watch caches, which contain only objects that match the label selector of the
    /// operator, or live.
    pub reads: Reads,
}
