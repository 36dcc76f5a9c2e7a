//! Development only: what the tests of several crates share.

pub mod invariant;
pub mod model;
