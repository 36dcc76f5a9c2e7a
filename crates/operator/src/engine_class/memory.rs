//! What the process remembers of a class from one look to the next. All of it can be lost.

use firebolt_api::FireboltEngineClass;

use crate::events::Told;
use crate::queue::{Attempts, Repairs};
use crate::write::Written;

/// The memory of one class.
#[derive(Debug, Default)]
pub struct Memory {
    /// What was written and the caches may not show yet.
    pub written: Written<FireboltEngineClass>,
    /// How passes went so far.
    pub attempts: Attempts,
    /// What people were told.
    pub told: Told,
    /// How often something was put right lately that somebody changed.
    pub repairs: Repairs,
}
