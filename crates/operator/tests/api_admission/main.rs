//! Admission on a real API server: the operator is its binary under the shipped permissions, and the API server asks it as
//! the shipped manifest says.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as users and other controllers do"
)]

#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod bypassed;
mod certificates;
mod deletion;
mod fixture;
mod kinds;
mod objects;
mod outage;
mod questions;
mod rehearsal;
mod scope;
mod spoilt;
mod stage;
mod traffic;
