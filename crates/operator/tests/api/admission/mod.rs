//! The admission webhooks: the API server calls the operator as the shipped manifest says.

mod certificates;
mod deletion;
mod drifted_objects;
mod dry_run;
mod kinds;
mod manifests;
mod namespaces;
mod objects;
mod outage;
mod requests;
mod resource_limits;
mod testenv;
mod traffic;
mod webhook_bypassed;
