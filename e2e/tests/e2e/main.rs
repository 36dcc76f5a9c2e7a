//! A whole cluster: the operator as it is installed, an instance with its PostgreSQL and gateway, and engines in pods.
//!
//! Each test has a namespace of its own, and nothing that it does reaches beyond it. What does is in `e2e_disruptive`.

mod bring_up;
mod broken;
mod deletion;
mod drain;
mod killed;
mod stopping;
mod waking;
mod zero_downtime;
