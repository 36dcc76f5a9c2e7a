//! The gateway: the configuration that the operator renders, in the real Envoy, with stand-in engines behind it.
//!
//! Every test has its own network with the real ports, so the configuration is used unchanged.

mod testenv;

mod documentation;
mod forwarding;
mod holds;
mod hostile;
mod known_bad;
mod limits;
mod observability;
mod selection;
