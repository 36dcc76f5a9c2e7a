//! Black-box tests of the gateway and of a whole cluster, and their test environments.
//!
//! The gateway tier runs the real Envoy with the configuration that the operator renders for it. Each of its tests has
//! a network of its own ([`isolation`]), in which the real CoreDNS ([`dns`]) and Envoy ([`envoy`]) use the ports that
//! they use in a pod. Linux only, and `unshare`, `mount` and `ip` must be installed.
//!
//! The tier with a whole cluster ([`cluster`]) has everything: the operator as it is installed, and pods on a node.

pub mod agent;
pub mod api_server;
pub mod cluster;
pub mod dns;
pub mod envoy;
mod http;
pub mod isolation;
pub mod wait;
