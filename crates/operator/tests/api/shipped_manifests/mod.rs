//! The shipped manifests on a real API server: the admission policy for the service account of gateways, the webhook
//! registrations, and the pods of the operator.

mod files;
mod manifests;
mod operator;
mod policy_allowed;
mod policy_denied;
mod testenv;
