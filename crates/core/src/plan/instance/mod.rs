//! What one reconcile of an instance does: writes, status, events and requeue.
//!
//! ```text
//!   PostgreSQL ──► metadata service ──► gateway          each: write what is missing or was changed, then check
//!   (or the Secret of an external one)                   readiness; a failed component stops those that depend on it
//! ```
//!
//! Only the first creation of the gateway waits, for the metadata service; the metadata service itself retries the
//! connection to its database. An existing gateway is reconciled regardless of the other components.
//!
//! [`plan`] reads no clock and does no I/O. Its assumptions are documented in the module of [`Input`] and in [`Plan`].

mod component;
mod delete;
mod gateway;
mod input;
mod kstatus;
mod metadata;
mod object;
mod output;
mod postgres;
mod status;
mod workload;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::time::Duration;

use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltInstance, FireboltInstanceStatus};
use jiff::Timestamp;

pub use crate::database::Database;
pub use input::{Credentials, Desired, Input, Leftover, Limits, Observed, Order};
pub use object::{Component, InstanceObject, InstanceObjectKind};
pub use output::{InstanceWrite, Plan};
pub use workload::Workload;

use super::has_finalizer;
use component::ComponentPlan;

/// Plans one reconcile.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    let plan = unlimited(input);
    let requeue_after = plan.requeue_after.into_iter().chain(input.limits.retry_after);
    Plan {
        requeue_after: requeue_after.min(),
        throttle: input.limits.drift.filter(|_| !plan.writes.is_empty()),
        ..plan
    }
}

/// The plan with only those requeue times that it needs itself.
fn unlimited(input: &Input) -> Plan {
    if input.instance.metadata.deletion_timestamp.is_some() {
        return delete::plan(input);
    }
    let own: Vec<InstanceWrite> = own_writes(input);
    if own.is_empty() {
        return status::conclude(input, component_plans(input), None);
    }
    Plan {
        writes: own,
        requeue_after: Some(Duration::ZERO),
        ..Plan::default()
    }
}

/// The status of an instance that cannot be reconciled because the API server rejects a request, with the message of
/// the API server.
#[must_use]
pub fn stuck(instance: &FireboltInstance, message: String, now: Timestamp) -> Option<FireboltInstanceStatus> {
    status::stuck(instance, message, now)
}

/// Writes to the instance itself that come before all others: a finalizer, so that its objects are cleaned up, and an
/// identifier, which everything in the metadata service belongs to.
fn own_writes(input: &Input) -> Vec<InstanceWrite> {
    let finalizer =
        (!has_finalizer(&input.instance.metadata, Finalizer::Instance.key())).then_some(InstanceWrite::AddFinalizer);
    let unnamed = input.instance.spec.id.as_ref().is_none_or(String::is_empty);
    let id = unnamed.then(|| InstanceWrite::SetId(input.fresh_id.to_owned()));
    finalizer.into_iter().chain(id).collect()
}

/// The plans of all components, in order.
fn component_plans(input: &Input) -> [ComponentPlan; 3] {
    let postgres = postgres::plan(input);
    let metadata = metadata::plan(input, &postgres);
    let gateway = gateway::plan(input, &metadata);
    [postgres, metadata, gateway]
}
