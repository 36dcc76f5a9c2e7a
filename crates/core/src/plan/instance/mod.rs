//! The decision of one pass over an instance: what to write, what to report, when to look again.
//!
//! ```text
//!   PostgreSQL ──► metadata service ──► gateway          each: write what is missing or was changed, then look if it
//!   (or the Secret of an external one)                   is ready; what stops one component stops those that need it
//! ```
//!
//! Nothing waits for anything but the gateway, whose first creation waits for the metadata service: the metadata service
//! tries to reach its database again by itself. A gateway that exists is looked after whatever the others do.
//!
//! [`plan`] reads no clock and does no I/O. What it relies on is said in [`Input`]'s module and in [`Plan`].

mod delete;
mod gateway;
mod input;
mod metadata;
mod output;
mod postgres;
mod status;
mod step;
mod workload;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::time::Duration;

use firebolt_api::FireboltInstanceStatus;
use firebolt_api::key::Finalizer;

pub use input::{Credentials, Input, Leftover, Observed, Order, Wanted};
pub use output::{Component, Database, Kind, Object, Plan, Write};
pub(crate) use postgres::switch;
pub use workload::Workload;

use step::Step;

/// Decides on one pass.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    if input.instance.metadata.deletion_timestamp.is_some() {
        return delete::plan(input);
    }
    let own: Vec<Write> = own_writes(input);
    if own.is_empty() {
        return status::conclude(input, steps(input), None);
    }
    Plan {
        writes: own,
        status: None,
        events: Vec::new(),
        look_again: Some(Duration::ZERO),
    }
}

/// The status of an instance whose plan cannot even be begun, or not be ended, because the API server does not let us: what
/// it says, in words.
#[must_use]
pub fn stuck(input: &Input, message: String) -> Option<FireboltInstanceStatus> {
    status::stuck(input, message)
}

/// What has to be on the instance itself before anything is made for it: a finalizer, so that it can be cleared away, and
/// an identity, which everything in the metadata service belongs to.
fn own_writes(input: &Input) -> Vec<Write> {
    let finalizer = (!has_finalizer(input, Finalizer::Instance.key())).then_some(Write::AddFinalizer);
    let unnamed = input.instance.spec.id.as_ref().is_none_or(String::is_empty);
    let id = unnamed.then(|| Write::SetId(input.fresh_id.to_owned()));
    finalizer.into_iter().chain(id).collect()
}

/// All components in their order.
fn steps(input: &Input) -> [Step; 3] {
    let postgres = postgres::step(input);
    let metadata = metadata::step(input, &postgres);
    let gateway = gateway::step(input, &metadata);
    [postgres, metadata, gateway]
}

fn has_finalizer(input: &Input, finalizer: &str) -> bool {
    let finalizers = input.instance.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|known| known == finalizer)
}
