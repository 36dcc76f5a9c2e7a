//! What one reconcile of an engine class does: writes, status, events and requeue.
//!
//! ```text
//!   (new) ──► finalizer ──► counted, validated ──► (deletion requested) ──► no engine references it ──► finalizer removed
//!                             ▲            │                                  ▲             │
//!                             └────────────┘                                  └─────────────┘
//!                      engines or template change                       blocked, naming the engines
//! ```
//!
//! A class creates no objects: its engines read it themselves. The plan determines its status and whether it may be
//! deleted.
//!
//! [`plan`] reads no clock and does no I/O. Its assumptions are documented in the module of [`Input`] and in [`Plan`].

mod input;
mod kstatus;
mod output;
mod status;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::time::Duration;

use firebolt_api::key::Finalizer;

pub use input::{Input, Limits, Observed};
pub use output::{ClassWrite, Plan};

use super::{Reads, has_finalizer};

/// How often engines are listed live while engines that the watches do not show block a deletion: those that do not
/// match the label selector cause no watch events.
const UNSEEN: Duration = Duration::from_secs(30);

/// How long a class is not reconciled after its number of engines changed: many engines may be created or deleted at
/// once, and the numbers in between are of no use.
const COUNT_INTERVAL: Duration = Duration::from_millis(500);

/// Plans one reconcile.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    let plan = unlimited(input);
    let throttle = if plan.counts_anew(input.class) {
        Some(COUNT_INTERVAL)
    } else {
        input.limits.drift.filter(|_| plan.corrects_drift(input.class))
    };
    Plan { throttle, ..plan }
}

fn unlimited(input: &Input) -> Plan {
    let held = has_finalizer(&input.class.metadata, Finalizer::EngineClass.key());
    if input.class.metadata.deletion_timestamp.is_none() {
        let finalizer = (!held).then_some(ClassWrite::AddFinalizer);
        return status::conclude(input, finalizer, status::validate(input));
    }
    if !held {
        // Only finalizers of other controllers are left.
        return Plan::default();
    }
    match status::blocked(input) {
        None => release(input),
        Some(readiness) => Plan {
            requeue_after: match input.observed.reads {
                Reads::Cached => None,
                Reads::LiveChildren | Reads::Live => Some(UNSEEN),
            },
            ..status::conclude(input, None, readiness)
        },
    }
}

/// Removes the finalizer. If finalizers of other controllers are left, the status must not continue to name engines as
/// the cause.
fn release(input: &Input) -> Plan {
    match status::held_by_others(input) {
        Some(readiness) => status::conclude(input, Some(ClassWrite::RemoveFinalizer), readiness),
        None => Plan {
            writes: vec![ClassWrite::RemoveFinalizer],
            ..Plan::default()
        },
    }
}
