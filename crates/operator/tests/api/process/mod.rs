//! The process itself: start-up, readiness, leader election, shutdown.

mod leader_election;
mod startup;
