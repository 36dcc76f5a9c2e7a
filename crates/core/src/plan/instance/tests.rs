//! What is decided in each situation.

mod another_database;
mod credentials;
mod the_end;
mod the_order;
mod what_is_said;

use firebolt_api::InstancePhase::{self, Degraded, Failed, Provisioning, Ready};
use firebolt_api::condition::InstanceCondition;
use rstest::rstest;
use strum::IntoEnumIterator;

use super::fixture::{Case, instance, ours, pods};
use super::*;
use crate::plan::{Child, Meta, Severity};

fn writes(case: &Case) -> Vec<Write> {
    case.plan().writes
}

fn create(objects: &[Object]) -> Vec<Write> {
    objects.iter().map(|object| Write::Create(*object)).collect()
}

/// Reason and message of the whole instance.
fn said(case: &Case) -> (String, String) {
    let ready = case.condition(InstanceCondition::Ready);
    (ready.reason, ready.message)
}
