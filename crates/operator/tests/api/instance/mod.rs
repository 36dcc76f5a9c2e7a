//! The instance controller.

mod children;
mod deletion;
mod faults;
mod fixtures;
mod gitops;
mod invalid_spec;
mod metrics;
mod postgres;
mod provisioning;
mod rollouts;
mod service_account;
mod several_instances;
mod status_history;
mod testenv;
mod upgrades;
pub(crate) mod volumes;
mod write_count;
