//! Development only: an engine and a metadata service that keep the contract of the closed-source images.
//!
//! They are the only imitations in this repository. Everything else that tests touch is the real program; [`postgres`]
//! starts one of those the way its image would. [`load`] plays the clients.

mod client;
pub mod engine;
mod ledger;
pub mod load;
pub mod loopback;
pub mod metadata;
pub mod postgres;
mod server;

pub use client::{Endpoint, EndpointError};
