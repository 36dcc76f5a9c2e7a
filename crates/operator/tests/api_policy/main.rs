//! The shipped admission manifests on a real API server: what the policy lets the service account of a gateway change,
//! and how the webhooks are registered.

#[path = "../support/mod.rs"]
mod support;

mod allowed;
mod manifests;
mod refused;
mod stage;
