//! Clients and agents that misbehave.

mod agents;
mod clients;
