//! The plan of an instance in each situation.

mod credentials;
mod database_change;
mod deletion;
mod order;
mod status;

use firebolt_api::InstancePhase::{self, Degraded, Failed, Provisioning, Ready};
use firebolt_api::condition::InstanceCondition;
use rstest::rstest;
use strum::IntoEnumIterator;

use super::fixture::{Case, instance, ours, pods};
use super::*;
use crate::plan::{Meta, ObservedChild, Severity};

fn writes(case: &Case) -> Vec<InstanceWrite> {
    case.plan().writes
}

fn create(objects: &[InstanceObject]) -> Vec<InstanceWrite> {
    objects.iter().map(|object| InstanceWrite::Create(*object)).collect()
}

/// Reason and message of the `Ready` condition.
fn ready_condition(case: &Case) -> (String, String) {
    let ready = case.condition(InstanceCondition::Ready);
    (ready.reason, ready.message)
}
