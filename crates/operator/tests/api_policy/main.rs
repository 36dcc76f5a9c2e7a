//! The shipped manifests on a real API server: what the policy lets the service account of a gateway change, how the
//! webhooks are registered, and what the pods of the operator are.

#[path = "../support/mod.rs"]
mod support;

mod allowed;
mod manifests;
mod operator;
mod refused;
mod stage;
