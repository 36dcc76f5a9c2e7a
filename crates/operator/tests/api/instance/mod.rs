//! The instance controller.

mod children;
mod cluster_limits;
mod component_loss;
mod crash;
mod credentials;
mod deletion;
mod external_postgres;
mod fixtures;
mod foreign_objects;
mod invalid_spec;
mod metrics;
mod password_secrecy;
mod postgres_change;
mod provisioning;
mod rollouts;
mod self_healing;
mod service_account;
mod several_instances;
mod status_history;
mod testenv;
mod volumes;
mod write_count;
