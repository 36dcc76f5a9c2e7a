//! Moments that may not be known.

use std::time::Instant;

pub(super) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

pub(super) fn latest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.max(other)
}
