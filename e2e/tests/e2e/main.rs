//! A whole cluster: the operator as it is installed, an instance with its PostgreSQL and gateway, and engines in pods.
//!
//! Each test has a namespace of its own, and affects nothing outside it. Tests that do are in `e2e_disruptive`.

mod auto_stop;
mod deleted_route;
mod deletion;
mod drain;
mod failing_engines;
mod killed_pods;
mod provisioning;
mod stopping;
mod waking;
mod zero_downtime;
