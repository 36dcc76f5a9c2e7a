//! The decision of one pass over an engine class: what to write, what to report, when to look again.
//!
//! ```text
//!   (new) ──► finalizer ──► counted and judged ──► (deletion asked for) ──► no engine refers to it ──► finalizer off
//!                             ▲            │                                  ▲             │
//!                             └────────────┘                                  └─────────────┘
//!                        engines come and go, edits                        blocked, with names
//! ```
//!
//! A class makes nothing and rolls nothing: its engines read it for themselves. What is decided here is what its status
//! says, and whether it may go.
//!
//! [`plan`] reads no clock and does no I/O. What it relies on is said in [`Input`]'s module and in [`Plan`].

mod input;
mod output;
mod status;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::time::Duration;

use firebolt_api::key::Finalizer;

pub use input::{Input, Observed, Source};
pub use output::{Plan, Write};

/// How often a live look is repeated while engines that the watches do not show hold a deletion up: those outside of the
/// label selector come and go unseen.
const UNSEEN: Duration = Duration::from_secs(30);

/// Decides on one pass.
#[must_use]
pub fn plan(input: &Input) -> Plan {
    let held = has_finalizer(input);
    if input.class.metadata.deletion_timestamp.is_none() {
        let finalizer = (!held).then_some(Write::AddFinalizer);
        return status::conclude(input, finalizer, status::judge(input));
    }
    if !held {
        // Somebody else's finalizer holds it, which is none of our business.
        return Plan::default();
    }
    match status::blocked(input) {
        None => release(input),
        Some(verdict) => Plan {
            look_again: match input.observed.source {
                Source::Watched => None,
                Source::Live => Some(UNSEEN),
            },
            ..status::conclude(input, None, verdict)
        },
    }
}

/// Lets the class go. If somebody else still holds it, its status must not go on to blame engines.
fn release(input: &Input) -> Plan {
    match status::held_by_others(input) {
        Some(verdict) => status::conclude(input, Some(Write::RemoveFinalizer), verdict),
        None => Plan {
            writes: vec![Write::RemoveFinalizer],
            ..Plan::default()
        },
    }
}

fn has_finalizer(input: &Input) -> bool {
    let finalizers = input.class.metadata.finalizers.iter().flatten();
    finalizers
        .into_iter()
        .any(|known| known == Finalizer::EngineClass.key())
}
