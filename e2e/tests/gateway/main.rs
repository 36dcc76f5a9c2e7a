//! The gateway: the configuration that the operator renders, in the real Envoy, with stand-in engines behind it.
//!
//! Every test has a network of its own with the real ports, so that nothing about the configuration is changed for it.

mod altered;
mod bad_agent;
mod client;
mod load;
mod scene;
mod scripted;

mod access_log;
mod addresses;
mod bodies;
mod connections;
mod cutover;
mod failures;
mod families;
mod fuzz;
mod handbook;
mod hostile;
mod hostile_agent;
mod known_bad;
mod retries;
mod routing;
mod selector;
mod surface;
mod wake;
