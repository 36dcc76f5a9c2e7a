//! What we render against the real API server: it accepts it, and nothing that it fills in looks like tampering.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as the operator would"
)]

mod engine;
mod instance;
mod support;
