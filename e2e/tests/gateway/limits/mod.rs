//! Limits on clients.

mod concurrency;
mod connections;
