//! The admission webhooks: the API server calls the operator as the shipped manifest says.

mod certificates;
mod client;
mod deletion;
mod drifted_objects;
mod dry_run;
mod manifests;
mod namespaces;
mod outage;
mod requests;
mod resource_limits;
mod testenv;
mod traffic;
mod validation;
mod webhook_bypassed;
