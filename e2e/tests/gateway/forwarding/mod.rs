//! How requests reach their engine, and what happens if they do not.

mod bodies;
mod cutover;
mod endpoints;
mod ip_families;
mod requests;
mod retries;
mod unavailable_engines;
