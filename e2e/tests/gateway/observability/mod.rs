//! What the gateway reports about itself.

mod access_log;
mod ports;
