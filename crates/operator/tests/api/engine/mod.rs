//! The engine controller.

mod auto_stop;
mod cluster_limits;
mod draining;
mod edits;
mod faults;
mod idle;
mod manual_changes;
mod never_ready;
mod phases;
mod pod_failures;
mod reporting;
mod rollouts;
mod scrape_failures;
mod self_healing;
mod stops;
mod upgrades;
